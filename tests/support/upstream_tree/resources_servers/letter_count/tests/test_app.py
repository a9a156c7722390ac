from unittest.mock import MagicMock

from fastapi.testclient import TestClient
from nemo_gym.server_utils import ServerClient

from resources_servers.letter_count.app import LetterCountConfig, LetterCountServer


class TestApp:
    def test_counts_without_regard_to_case(self) -> None:
        config = LetterCountConfig(host="0.0.0.0", port=8080, entrypoint="", name="letter_count", domain="other")
        server = LetterCountServer(config=config, server_client=MagicMock(spec=ServerClient))
        client = TestClient(server.setup_webserver())
        assert client.post("/seed_session", json={"word": "Anna"}).status_code == 200
        assert client.post("/count_letter", json={"letter": "a"}).json() == {"count": 2}
