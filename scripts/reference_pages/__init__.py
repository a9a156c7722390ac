"""The pages of docs/reference, made of the models, commands and routes of the code."""
