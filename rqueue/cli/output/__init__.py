"""What commands print: tables, live views, timelines."""
