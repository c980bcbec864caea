import json
import sys


def answer(question):
    if question["type"] == "hello":
        return {"protocol": 1, "identity": "recaller 1.0"}
    seen = zip(question["observation"], question["memory"], strict=True)
    cues = [1 + one.index(1.0) if kept is None else kept for one, kept in seen]
    asked = [one[4] > 0 for one in question["observation"]]
    choices = [cue if now else 0 for cue, now in zip(cues, asked, strict=True)]
    return {"id": question["id"], "actions": {"answer": choices}, "memory": cues}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
