// Encodes strings with Hugging Face's tokenizers: module, jobs. See oracle.py; nothing is decoded.
const fs = require("fs");
const [mod, jobs] = process.argv.slice(2);
const { Tokenizer } = require(mod);

(async () => {
  for (const job of JSON.parse(fs.readFileSync(jobs, "utf8"))) {
    const tok = Tokenizer.fromFile(job.model);
    const out = fs.openSync(job.out, "w");
    const lines = [];
    for (const text of JSON.parse(fs.readFileSync(job.in, "utf8"))) {
      const e = await tok.encode(text, null, { addSpecialTokens: false });
      lines.push(JSON.stringify([e.getIds(), null]));
    }
    fs.writeSync(out, lines.join("\n") + "\n");
    fs.closeSync(out);
  }
})();
