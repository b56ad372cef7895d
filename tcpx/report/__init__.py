"""What a person sees of a schedule's run: text for a terminal, a page for a browser."""

from tcpx.report.explanation import Explanation, explain
from tcpx.report.page import html_page
from tcpx.report.text import ExplanationText

__all__ = ["Explanation", "ExplanationText", "explain", "html_page"]
