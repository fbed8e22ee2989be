"""What is told of a night afterwards: pages and CI's formats."""
