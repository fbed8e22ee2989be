"""Figures that age: proposals, accepted figures, patches."""
