from fastapi import FastAPI, Request
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import SESSION_ID_KEY
from pydantic import BaseModel


class LetterCountConfig(BaseResourcesServerConfig):
    case_sensitive: bool = False


class SeedRequest(BaseSeedSessionRequest):
    word: str


class CountRequest(BaseModel):
    letter: str


class CountResponse(BaseModel):
    count: int


class VerifyRequest(BaseVerifyRequest):
    word: str
    expected: int


class VerifyResponse(BaseVerifyResponse):
    expected: int
    tool_calls: int


class LetterCountServer(SimpleResourcesServer):
    config: LetterCountConfig

    def model_post_init(self, context):
        super().model_post_init(context)
        self._words = {}
        self._calls = {}

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/count_letter")(self.count_letter)
        return app

    async def seed_session(self, request: Request, body: SeedRequest) -> BaseSeedSessionResponse:
        self._words[request.session[SESSION_ID_KEY]] = body.word
        return BaseSeedSessionResponse()

    async def count_letter(self, request: Request, body: CountRequest) -> CountResponse:
        session = request.session[SESSION_ID_KEY]
        word, letter = self._words[session], body.letter
        if not self.config.case_sensitive:
            word, letter = word.lower(), letter.lower()
        self._calls[session] = self._calls.get(session, 0) + 1
        return CountResponse(count=word.count(letter))

    async def verify(self, request: Request, body: VerifyRequest) -> VerifyResponse:
        session = request.session[SESSION_ID_KEY]
        texts = [
            part.text
            for item in body.response.output
            if item.type == "message"
            for part in item.content
            if part.type == "output_text"
        ]
        right = bool(texts) and str(body.expected) in texts[-1]
        return VerifyResponse(**body.model_dump(), tool_calls=self._calls.pop(session, 0), reward=1.0 if right else 0.0)


if __name__ == "__main__":
    LetterCountServer.run_webserver()
