"""What commands print: tables and lines for a terminal."""
