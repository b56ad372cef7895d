"""Schedules written in Python: they build the syntax tree that the text of a `.tcps` file gives."""

from tcpx.transform.language.embedded.body import Body
from tcpx.transform.language.embedded.file import Schedulable, ScheduleFile, program_of
from tcpx.transform.language.embedded.values import Argument, Dim, Value

__all__ = ["Argument", "Body", "Dim", "Schedulable", "ScheduleFile", "Value", "program_of"]
