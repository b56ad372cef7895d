"""The C printer: from functions at buffer level to the text of one C file."""
