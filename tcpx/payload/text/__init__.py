"""Payload text: the grammar, the parser and the printer. Printing then parsing gives the same payload."""
