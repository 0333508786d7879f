// Writes reports for the test in Chromium: report_sample FOLDER. `usual.html` is made up like that of a small model;
// `hostile.html` has names that try to be markup, script or invisible, and numbers that are none; `empty.html` has
// nothing; `one.html`, `three.html`, `many.html` and `large.html` have that many tensors, the last as many as the
// largest checkpoints; `three.html` also became larger, and `long.html` has names and paths that are too long for any
// screen.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "report/report.hpp"

namespace {

using namespace planck::cli;

Report settings_of(const char* name, const char* input) {
  Report report;
  report.name = name;
  report.input = input;
  report.output = "out";
  report.version = "0.0.0";
  report.settings = {{"scope", "channel"}, {"mode", "symmetric"}, {"dtype", "int8"}, {"threads", "2"}};
  report.totals = {90'868'376, 58'655'704, 0.125, 41.25, 0.0058, 0.00041};
  return report;
}

ReportTensor linear(const std::string& name, std::int64_t rows, std::int64_t columns, double wobble) {
  ReportTensor tensor{name, {rows, columns}, "F32", true, "channel"};
  tensor.bytes_before = static_cast<std::uint64_t>(rows * columns * 4);
  tensor.bytes_after = static_cast<std::uint64_t>(rows * columns + rows * 4);
  tensor.min = -0.4 - 0.6 * wobble;
  tensor.max = 0.5 + 0.4 * wobble;
  tensor.scale_min = 0.0008;
  tensor.scale_max = 0.0079 * (1 + wobble);
  tensor.max_error = tensor.scale_max / 2;
  tensor.mean_error = tensor.scale_min / 4;
  tensor.snr_db = 44 - 8 * wobble;
  tensor.cosine = 1 - std::pow(10, -tensor.snr_db / 10) / 2;
  return tensor;
}

ReportTensor copied(const std::string& name, std::vector<std::int64_t> shape, const char* why) {
  ReportTensor tensor{name, std::move(shape), "F32", false, why};
  double bytes = 4;
  for (const std::int64_t size : tensor.shape) bytes *= static_cast<double>(size);
  tensor.bytes_before = tensor.bytes_after = static_cast<std::uint64_t>(bytes);
  return tensor;
}

Report usual(int layers) {
  Report report = settings_of("all-MiniLM-L6-v2", "models/all-MiniLM-L6-v2/model.safetensors");
  report.tensors.push_back(copied("embeddings.word_embeddings.weight", {30522, 384}, "embedding"));
  for (int layer = 0; layer < layers; ++layer) {
    const std::string at = "encoder.layer." + std::to_string(layer) + '.';
    double phase = layer;
    for (const char* part : {"query", "key", "value"}) {
      report.tensors.push_back(
          linear(at + "attention.self." + part + ".weight", 384, 384, std::fabs(std::sin(++phase))));
      report.tensors.push_back(copied(at + "attention.self." + part + ".bias", {384}, "not 2-D"));
    }
    report.tensors.push_back(linear(at + "attention.output.dense.weight", 384, 384, std::fabs(std::sin(++phase))));
    report.tensors.push_back(linear(at + "intermediate.dense.weight", 1536, 384, std::fabs(std::sin(++phase))));
    report.tensors.push_back(linear(at + "output.dense.weight", 384, 1536, std::fabs(std::sin(++phase))));
    report.tensors.push_back(copied(at + "output.LayerNorm.weight", {384}, "not 2-D"));
  }
  return report;
}

Report some(int count) {
  Report report = settings_of("some", "some.safetensors");
  for (int i = 0; i < count; ++i) {
    const double wobble = std::fabs(std::sin(1.7 * i)) * (0.4 + 0.6 * i / count);
    report.tensors.push_back(linear("layers." + std::to_string(i) + ".weight", 16, 64, wobble));
  }
  return report;
}

Report larger() {
  Report report = some(3);
  report.totals.file_bytes_after = 137 * report.totals.file_bytes_before / 100;
  return report;
}

Report long_names() {
  const std::string words = "a_word_of_the_name_that_has_no_dot_at_all_and_does_not_end_where_a_line_does";
  Report report =
      settings_of("DeepSeek-R1-Distill-Llama-70B-instruct-merged-with-something-else-v2.1-final-checkpoint-12000",
                  "/mnt/a/very/long/path/to/the/models/of/the/team/that/nobody/wants/to/read/in/a/title/");
  report.input += report.name + "/" + words + ".safetensors";
  const std::string layer = "base_model.model.model.language_model.decoder.layers.";
  for (int i = 0; i < 12; ++i) {
    const std::string at = layer + std::to_string(i);
    report.tensors.push_back(linear(at + ".self_attn.q_proj.lora_magnitude_vector.default.weight", 64, 64, 0.5));
    report.tensors.push_back(linear(at + ".mlp." + words + ".weight", 64, 64, 0.1 * i));
    report.tensors.push_back(copied(at + ".norm.weight", {64}, "GPT-2's Conv1D, which is stored transposed"));
  }
  return report;
}

Report hostile() {
  Report report = settings_of("</title><script>document.title='owned'</script>", "<b>\"><img src=x>");
  report.settings.emplace_back("<b>name</b>", "\"><img src=x onerror=\"document.title='owned'\">");
  for (const std::string& name : {
           std::string("<script>document.title='owned'</script>"),
           std::string("\"><img src=x onerror=\"document.title='owned'\">"),
           std::string("' onmouseover='document.title=`owned`"),
           std::string("</table></main></body></html><svg onload=document.title='owned'>"),
           std::string("javascript:document.title='owned'"),
           std::string("&lt;script&gt; &amp;amp; &#x3c;"),
           std::string("zero\0byte, line\nbreak, \x1b[31mred\x7f", 32),
           std::string("right to left \u202Egnp.exe, nothing \u200B, mark \uFEFF"),
           std::string("broken \xFF\xC0\x80 \xED\xA0\x80 \xF4\x90\x80\x80 cut \xE2\x82"),
           std::string(5000, 'x'),
           std::string(),
       }) {
    report.tensors.push_back(linear(name, 3, 5, 0.5));
  }
  const double numbers[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e-30};
  for (const double number : numbers) {
    ReportTensor tensor = linear("number " + std::to_string(number), 1, 1, 0);
    tensor.min = -number;
    tensor.max = tensor.scale_min = tensor.scale_max = tensor.max_error = tensor.mean_error = tensor.snr_db =
        tensor.cosine = number;
    report.tensors.push_back(tensor);
  }
  report.tensors.push_back(copied("a tensor without elements", {0, 7}, "<i>why</i>"));
  report.tensors.push_back(copied("a scalar", {}, ""));
  report.totals = {0, 0, 0.0, NAN, INFINITY, NAN};
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: report_sample FOLDER\n", stderr), 2;
  const auto write = [&](const char* name, const Report& report) {
    std::ofstream file(std::string(argv[1]) + '/' + name, std::ios::binary);
    file << report_html(report);
    return file.flush().good();
  };
  const bool written = write("usual.html", usual(6)) && write("hostile.html", hostile()) &&
                       write("empty.html", settings_of("nothing", "nothing.safetensors")) &&
                       write("one.html", some(1)) && write("three.html", larger()) && write("many.html", some(300)) &&
                       write("large.html", usual(1000)) && write("long.html", long_names());
  return written ? 0 : 1;
}
