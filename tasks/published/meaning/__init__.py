"""Meanings of headers and cells: kinds of columns, units, numbers as people print them."""
