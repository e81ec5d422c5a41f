"""What a user could pick instead of this project, or a floor below which nobody gets."""
