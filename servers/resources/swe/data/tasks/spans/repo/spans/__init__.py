from spans.spanset import SpanSet

__all__ = ["SpanSet"]
