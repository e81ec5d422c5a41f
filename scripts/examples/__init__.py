"""A company's model from the modelling tool that it uses, one example for each tool."""
