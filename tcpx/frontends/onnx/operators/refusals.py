"""Operators that no payload can state, or that nothing states yet: each with its reason."""

from tcpx.frontends.onnx.table import refused

refused("the shape of its result depends on data", "NonMaxSuppression")
refused(
    "sequences, maps and optional values are no tensors", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
    "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence",
    "Optional",
)  # fmt: skip
refused("strings are no numbers", "StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch")
refused("files of images are not read", "ImageDecoder")
refused(
    "random numbers",
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
refused("windows whose size depends on data", "MaxRoiPool")
