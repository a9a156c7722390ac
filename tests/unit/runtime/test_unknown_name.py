from __future__ import annotations

from gym.runtime.unknown_name import unknown


def test_the_nearest_instance_is_offered_before_a_replica_and_a_long_list_is_cut() -> None:
    assert unknown("mcqb", ["weather", "mcqa"], ["mcqa-1", "mcqa-2"]).hint == "Did you mean mcqa?"
    assert unknown("wether-12", ["mcqa"], ["weather-1", "weather-2"]).hint == "Did you mean weather-2 or weather-1?"
    many = [f"server_{letter}" for letter in "abcdefghij"]
    listed = ", ".join(many[:8])
    assert unknown("zzz", many, ["gym-1-server-a-1"]).hint == f"There are: {listed} and 2 more: gym ps"
