"""The schedule language: text -> tokens -> syntax tree -> checked program, and back to text."""

from tcpx.transform.language.checker import check_program
from tcpx.transform.language.formatter import format_schedule
from tcpx.transform.language.loader import Program, load_program, program_of_text
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language.printer import print_expression, print_file, print_statement

__all__ = [
    "Program",
    "check_program",
    "format_schedule",
    "load_program",
    "parse_schedule",
    "print_expression",
    "print_file",
    "print_statement",
    "program_of_text",
]
