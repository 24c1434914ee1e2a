"""Pure decisions: plain functions from facts to a decision."""
