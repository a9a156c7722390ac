"""Plan -> a folder for `kubectl apply -k`: every instance a StatefulSet, one router, one console, one broker. Pure."""
