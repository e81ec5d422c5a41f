"""A company's model from the modelling tool it already has, one example for each tool."""
