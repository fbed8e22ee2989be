"""What is told of a run afterwards: pages and CI's formats."""
