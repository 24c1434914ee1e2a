"""The only room that speaks Redis: keys, scripts, and one module per noun."""
