
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
class Guess(Action):
    message: str
class Seen(Observation):
    text: str = ""
class Game(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    def __init__(self):
        super().__init__(); self._state=State(); self.secret=5
    def reset(self, seed=None, episode_id=None, secret=5, **kw):
        self.secret=secret; self._state=State(episode_id=episode_id); return Seen(text="Guess 1 to 9.")
    def step(self, action, timeout_s=None, **kw):
        if action.message=="boom": raise ZeroDivisionError("boom")
        n=int(action.message) if action.message.isdigit() else 0
        right = n==self.secret
        return Seen(text="right" if right else "wrong", reward=1.0 if right else 0.0, done=right)
    @property
    def state(self): return self._state
app = create_fastapi_app(Game, Guess, Seen, max_concurrent_envs=4)
