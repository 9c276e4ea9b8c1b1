"""Answers of transformers' beam search on the tiny models of tests/data/golden: beams.json.

beams.py GOLDEN_FOLDER. Prompts of ids, several numbers of beams and lengths, with end tokens that come and that don't.
"""
import json
import sys

sys.path.pop(0)  # tokenizers.py beside this is another

import torch
import transformers

folder = sys.argv[1]
rows = []
for name in ("llama-tied", "gemma2-tied"):
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/{name}", dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    for first, length in ((5, 9), (40, 3), (77, 20)):
        prompt = [3 + (first + 7 * i) % 150 for i in range(length)]
        ids = torch.tensor([prompt])
        plain = model.generate(ids, num_beams=4, do_sample=False, max_new_tokens=12, pad_token_id=0)[0, length:].tolist()
        for beams, new, ends in ((2, 12, []), (4, 12, []), (4, 12, [plain[5]]), (3, 20, [plain[2], plain[7]]), (8, 6, [plain[0]])):
            out = model.generate(ids, num_beams=beams, do_sample=False, max_new_tokens=new, pad_token_id=0,
                                 eos_token_id=ends or None, output_scores=True, return_dict_in_generate=True)
            tokens = out.sequences[0, length:].tolist()
            while ends and tokens and tokens[-1] == 0:
                tokens.pop()
            rows.append({"model": name, "prompt": prompt, "num_beams": beams, "max_new_tokens": new, "end_ids": ends,
                         "tokens": tokens, "score": out.sequences_scores[0].item()})
with open(f"{folder}/beams.json", "w") as file:
    json.dump({"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "rows": rows}, file)
    file.write("\n")
