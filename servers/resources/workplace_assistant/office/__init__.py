"""A small office: five tables, the 27 tools that read and change them, and what two offices differ in."""
