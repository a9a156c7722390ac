from keepsake.cache import Cache
from keepsake.decorator import cached

__all__ = ["Cache", "cached"]
