"""Half-open spans [start, end), kept sorted, disjoint and apart."""

from bisect import bisect_right


class SpanSet:
    def __init__(self, spans=()):
        self._spans = []
        for start, end in spans:
            self.add(start, end)

    def __iter__(self):
        return iter(self._spans)

    def __eq__(self, other):
        return isinstance(other, SpanSet) and self._spans == other._spans

    def __hash__(self):
        return hash(tuple(self._spans))

    def __repr__(self):
        return f"SpanSet({self._spans!r})"

    def __len__(self):
        return sum(end - start for start, end in self._spans)

    def __contains__(self, number):
        index = bisect_right(self._spans, number, key=lambda span: span[0]) - 1
        return index >= 0 and self._spans[index][0] <= number < self._spans[index][1]

    def add(self, start, end):
        """Spans that overlap or touch become one."""
        if start > end:
            raise ValueError(f"{start} is after {end}")
        if start == end:
            return
        kept = []
        for span in self._spans:
            if span[1] < start or span[0] > end:
                kept.append(span)
            else:
                start, end = min(start, span[0]), max(end, span[1])
        kept.append((start, end))
        self._spans = sorted(kept)

    def remove(self, start, end):
        if start >= end:
            return
        kept = []
        for one, other in self._spans:
            if other <= start or one >= end:
                kept.append((one, other))
                continue
            if one < start:
                kept.append((one, start))
            if other > end:
                kept.append((end, other))
        self._spans = kept

    def gaps(self, start, end):
        """What is missing between start and end."""
        missing = SpanSet([(start, end)])
        for one, other in self._spans:
            missing.remove(one, other)
        return missing
