"""What all pages for people share: the shell around them, their files, who may see them. Imports no section."""
