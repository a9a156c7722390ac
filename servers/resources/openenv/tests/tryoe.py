import asyncio, sys
sys.path.insert(0,'/work/main/servers/resources/openenv')
from app import OpenEnv
from gym.server.testing import Caller, running
from gym.wire.items import message
async def main():
    F={"url":"http://127.0.0.1:18473","action_field":"message","observation_field":"text","act_seconds":30}
    row={"responses_create_params":{"input":"g"},"reset":{"seed":3,"secret":7}}
    async with running(OpenEnv.app(F,name="openenv")) as url, Caller(url) as c:
        print((await c.post("/reset",row)).body)
        for t in ("1","7"):
            print((await c.post("/step",{**row,"response":{"output":[message(t)]}})).body)
        await c.post("/reset",row)
        print((await c.post("/step",{**row,"response":{"output":[message("boom")]}})).body)
        print((await c.post("/verify",{**row,"response":{"output":[message("1"),message("7")]}})).body.get("reward"))
        # reset twice
    async with running(OpenEnv.app({**F,"action_field":""},name="openenv")) as url, Caller(url) as c:
        await c.post("/reset",row)
        for t in ("7",'{"message":"7","x":1}','{"message":"7"}'):
            print((await c.post("/step",{**row,"response":{"output":[message(t)]}})).body)
    async with running(OpenEnv.app({**F,"open_seconds":3},name="openenv")) as url:
        cs=[Caller(url) for _ in range(6)]
        import contextlib
        async with contextlib.AsyncExitStack() as s:
            for c in cs: await s.enter_async_context(c)
            rs=await asyncio.gather(*(c.post("/reset",row) for c in cs))
            print([r.status for r in rs],[r.body.get("error") for r in rs if r.status!=200])
    async with running(OpenEnv.app({**F,"url":"http://127.0.0.1:9"},name="openenv")) as url, Caller(url) as c:
        print((await c.post("/reset",row)).body)
asyncio.run(main())
