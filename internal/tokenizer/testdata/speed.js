// Times Hugging Face's tokenizers: module, jobs. See speed.py.
const fs = require("fs");
process.env.TOKENIZERS_PARALLELISM = "false";
const [mod, jobs] = process.argv.slice(2);
const { Tokenizer } = require(mod);

(async () => {
  const out = [];
  for (const job of JSON.parse(fs.readFileSync(jobs, "utf8"))) {
    const tok = Tokenizer.fromFile(job.model);
    const texts = JSON.parse(fs.readFileSync(job.in, "utf8"));
    const start = process.cpuUsage();
    for (const text of texts) await tok.encode(text, null, { addSpecialTokens: false });
    const used = process.cpuUsage(start);
    out.push((used.user + used.system) / 1e6);
  }
  console.log(JSON.stringify(out));
})();
