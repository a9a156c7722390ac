"""`--queue`: collectors on any machines share one data set through streams of Redis or Valkey."""
