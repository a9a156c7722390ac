"""The web page of a stack and its discovery API, behind the router. It shows, it changes nothing."""
