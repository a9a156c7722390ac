import json
import re
from time import time
from uuid import uuid4

from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig, Body, SimpleResponsesAPIModel
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseFunctionToolCall,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputText,
)


class ParrotConfig(BaseResponsesAPIModelConfig):
    prefix: str = "There are "


class ParrotModel(SimpleResponsesAPIModel):
    config: ParrotConfig

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming = Body()
    ) -> NeMoGymChatCompletion:
        raise NotImplementedError

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        last = body.input[-1]
        if getattr(last, "type", "") == "function_call_output":
            count = json.loads(last.output)["count"]
            item = NeMoGymResponseOutputMessage(
                id=f"msg_{uuid4().hex}",
                content=[NeMoGymResponseOutputText(text=f"{self.config.prefix}{count}.", annotations=[])],
            )
        else:
            letter = re.search(r"How many (\w) are", last.content)[1]
            item = NeMoGymResponseFunctionToolCall(
                name="count_letter", arguments=json.dumps({"letter": letter}), call_id=f"call_{uuid4().hex}"
            )
        return NeMoGymResponse(
            id=f"resp_{uuid4().hex}",
            created_at=time(),
            model="parrot",
            object="response",
            output=[item],
            tool_choice="auto",
            tools=body.tools,
            parallel_tool_calls=body.parallel_tool_calls,
        )


if __name__ == "__main__":
    ParrotModel.run_webserver()
