import json

from fastapi import Request
from nemo_gym.base_resources_server import BaseRunRequest, BaseVerifyResponse
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.openai_utils import (
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from nemo_gym.server_utils import raise_for_status
from pydantic import ConfigDict


class TwoTurnConfig(BaseResponsesAPIAgentConfig):
    resources_server: ResourcesServerRef
    model_server: ModelServerRef


class RunRequest(BaseRunRequest):
    model_config = ConfigDict(extra="allow")


class RunResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


class TwoTurnAgent(SimpleResponsesAPIAgent):
    config: TwoTurnConfig

    async def responses(self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming) -> NeMoGymResponse:
        return await self._converse(body, request.cookies)

    async def run(self, request: Request, body: RunRequest) -> RunResponse:
        seeded = await self.server_client.post(
            self.config.resources_server.name, "/seed_session", json=body.model_dump(), cookies=request.cookies
        )
        await raise_for_status(seeded)
        cookies = seeded.cookies
        response = await self._converse(body.responses_create_params, cookies)
        verified = await self.server_client.post(
            self.config.resources_server.name,
            "/verify",
            json=body.model_dump() | {"response": response.model_dump()},
            cookies=cookies,
        )
        await raise_for_status(verified)
        return RunResponse.model_validate(await verified.json())

    async def _converse(self, body, cookies) -> NeMoGymResponse:
        if isinstance(body.input, str):
            body = body.model_copy(update={"input": [{"role": "user", "content": body.input}]})
        new = []
        for _ in range(2):
            asked = body.model_copy(update={"input": [*body.input, *new]})
            reply = await self.server_client.post(self.config.model_server.name, "/v1/responses", json=asked)
            await raise_for_status(reply)
            response = NeMoGymResponse.model_validate(await reply.json())
            new += response.output
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            for call in calls:
                result = await self.server_client.post(
                    self.config.resources_server.name,
                    f"/{call.name}",
                    json=json.loads(call.arguments),
                    cookies=cookies,
                )
                text = (await result.content.read()).decode()
                new.append(NeMoGymFunctionCallOutput(type="function_call_output", call_id=call.call_id, output=text))
        response.output = new
        return response


if __name__ == "__main__":
    TwoTurnAgent.run_webserver()
