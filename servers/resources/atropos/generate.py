"""Makes rows of bisection: python generate.py --count 100 --difficulty hard. Of other environments: make_rows.py."""

from random import Random

from draws import draw_game

from gym.server.generating import Made, main


class AtroposRows:
    licence = "Apache-2.0"
    difficulties = ("easy", "medium", "hard")

    def make(self, random: Random, difficulty: str) -> Made:
        game = draw_game(random, difficulty)
        agent = {"type": "responses_api_agents", "name": "atropos_play_agent"}
        row = {"responses_create_params": {"input": []}, "item": game, "agent_ref": agent}
        return Made(row, answer=f"<guess>{game['secret']}</guess>", key=f"{game['highest']}:{game['secret']}")


if __name__ == "__main__":
    raise SystemExit(main(AtroposRows()))
