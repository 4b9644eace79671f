"""Bad input is refused with the rule and the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quietshelf.model.assortment import best

NAN, INF = float("nan"), float("inf")
TWO = np.ones((2, 3))

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one of weight and utility must be given"),
    ({"weight": [1, 1, 1], "utility": [0, 0, 0]}, "exactly one of weight and utility must be given"),
    ({"weight": [1, 1, 1], "revenue": None}, "revenue must be given"),
    ({"weight": [1, NAN, 1]}, r"weight must be at least zero, got weight\[1\]=nan"),
    ({"weight": [1, 1, -0.5]}, r"weight must be at least zero, got weight\[2\]=-0.5"),
    ({"weight": [[1, 1, 1], [1, -2, 1]]}, r"weight must be at least zero, got weight\[1, 1\]=-2.0"),
    ({"weight": 1.0}, r"weight must have shape \(..., any\)"),
    ({"weight": "heavy"}, "weight must be an array of numbers, got weight='heavy'"),
    ({"utility": [0, NAN, 0]}, r"utility must be finite, got utility\[1\]=nan"),
    ({"utility": [0, 0, INF]}, r"utility must be finite, got utility\[2\]=inf"),
    ({"utility": [0, 0, -INF]}, r"utility must be finite, got utility\[2\]=-inf"),
    ({"utility": [0, -1e301, 0]}, r"utility must lie within ±1e\+300, got utility\[1\]=-1e\+301"),
    ({"utility": 0.0}, r"utility must have shape \(..., any\)"),
    ({"weight": [1, 1, 1], "revenue": [1, NAN, 1]}, r"revenue must be finite, got revenue\[1\]=nan"),
    ({"weight": [1, 1, 1], "revenue": INF}, "revenue must be finite, got revenue=inf"),
    ({"weight": [1, 1, 1], "revenue": [1, -1e151, 1]}, r"revenue must lie within ±1e\+150, got revenue\[1\]=-1e\+151"),
    ({"weight": [1, 1, 1], "revenue": 1e200}, r"revenue must lie within ±1e\+150, got revenue=1e\+200"),
    ({"weight": [1, 1, 1], "revenue": [1, 1]}, r"revenue must have shape \(..., 3\), got shape=\(2,\)"),
    ({"weight": np.ones((2, 3)), "revenue": np.ones((4, 3))}, r"weight of shape \(2, 3\), revenue of shape \(4, 3\)"),
    ({"weight": [1, 1, 1], "capacity": 0}, "capacity must be between 1 and items=3, got capacity=0"),
    ({"weight": [1, 1, 1], "capacity": 4}, "capacity must be between 1 and items=3, got capacity=4"),
    ({"weight": [1, 1, 1], "capacity": 1.5}, "capacity must be between 1 and items=3, got capacity=1.5"),
    ({"weight": [], "revenue": 1.0, "capacity": 1}, "capacity must be between 1 and items=0"),
    ({"weight": [1, 1, 1], "exactly": 1}, "exactly must be True or False, got exactly=1"),
    ({"weight": [1, 1, 1], "available": [0, 3]}, r"available must name items from 0 to 2, got available\[1\]=3"),
    ({"weight": [1, 1, 1], "available": [-1]}, r"available must name items from 0 to 2, got available\[0\]=-1"),
    ({"weight": [1, 1, 1], "required": [1, 1]}, "required must name each item at most once, got item 1 again"),
    ({"weight": [1, 1, 1], "required": [0.5]}, r"required must be a list of whole numbers, got required=\[0.5\]"),
    ({"weight": [1, 1, 1], "required": 1}, "required must be a list of whole numbers, got required=1"),
    ({"weight": [1, 1, 1], "required": [True, False]}, r"required must have shape \(..., 3\), got shape=\(2,\)"),
    ({"weight": TWO, "available": np.ones((4, 3), dtype=bool)}, r"available of shape \(4, 3\)"),
    ({"weight": [1, 1, 1], "required": [0, 1, 2]}, "required must name at most capacity=2 items, got 3 items"),
    ({"weight": [1, 1, 1], "required": [0], "available": [1]}, "required items must be available, got item 0"),
    ({"weight": [1, 1, 1], "groups": [0, 0, 0]}, "groups and limits must be given together, got groups alone"),
    ({"weight": [1, 1, 1], "limits": [1]}, "groups and limits must be given together, got limits alone"),
    ({"weight": [1, 1, 1], "groups": [0, 0], "limits": [1]}, r"groups must have shape \(3,\), got shape=\(2,\)"),
    (
        {"weight": [1, 1, 1], "groups": [0, 1, -1], "limits": [1]},
        r"groups must be from -1 to 0, the last of limits, got groups\[1\]=1",
    ),
    ({"weight": [1, 1, 1], "groups": [0, -2, 0], "limits": [1]}, "groups must be from -1 to 0"),
    ({"weight": [1, 1, 1], "groups": [0, 0, 0], "limits": [-1]}, r"limits must be at least zero, got limits\[0\]=-1"),
    ({"weight": [1, 1, 1], "groups": [0, 0.5, 0], "limits": [1]}, "groups must be a list of whole numbers"),
    (
        {"weight": [1, 1, 1], "groups": [0, 0, 1], "limits": [1, 1], "required": [0, 1]},
        "required must keep within limits, got 2 items of group 0, whose limit is 1",
    ),
    (
        {"weight": [1, 1, 1], "groups": [0, 0, 0], "limits": [1], "exactly": True},
        "exactly capacity=2 items must be possible, got at most 1",
    ),
    (
        {"weight": [1, 1, 1], "groups": [[0], [1, 2]], "limits": [1, 1]},
        "groups must be an array, all its rows equally long, got groups=",
    ),
    (
        {"weight": [1, 1, 1], "available": [2], "exactly": True},
        "exactly capacity=2 items must be possible, got at most 1",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_best_refuses_bad_input_naming_rule_and_value(arguments: dict[str, Any], message: str) -> None:
    """Each broken rule is named, with the value that breaks it."""
    with pytest.raises(ValueError, match=message):
        best(**({"revenue": 1.0, "capacity": 2} | arguments))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"required": [[0, 0, 0], [1, 1, 1]]}, "at most capacity=2 items, got 3 items in problem 1"),
        ({"available": [[1, 1, 1], [1, 0, 1]], "required": [1]}, "available, got item 1 in problem 1"),
        ({"available": [[1, 1, 0], [1, 0, 0]], "exactly": True}, "possible, got at most 1 in problem 1"),
        (
            {"groups": [0, 0, -1], "limits": [1], "required": [[0, 1, 1], [1, 1, 0]]},
            "got 2 items of group 0, whose limit is 1 in problem 1",
        ),
    ],
)
def test_best_names_the_first_problem_that_breaks_a_rule(rules: dict[str, Any], message: str) -> None:
    """In a batch the index of the first offending problem is part of the message."""
    masks: dict[str, Any] = {k: np.array(v, dtype=bool) if np.ndim(v) == 2 else v for k, v in rules.items()}
    with pytest.raises(ValueError, match=message):
        best(np.ones((2, 3)), 1.0, capacity=2, **masks)
    with pytest.raises(ValueError, match=message.replace("problem 1", "problem 0, 1")):
        best(np.ones((1, 2, 3)), 1.0, capacity=2, **masks)
