#include "tests/support/october_step.h"

#include "tests/test.h"

/* --- strings ---------------------------------------------------------------------------------- */

static void write_unit(FILE *out, unsigned unit) {
  fprintf(out, "\\u%04X", unit);
}

/* Decodes well-formed UTF-8; returns the bytes of the code point. */
static size_t decode(const unsigned char *text, unsigned *code_point) {
  size_t length = *text >= 0xF0 ? 4 : *text >= 0xE0 ? 3 : 2;
  *code_point = *text & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; i++)
    *code_point = *code_point << 6 | (text[i] & 0x3FU);
  return length;
}

/* Escapes everything beyond ASCII, and characters with a meaning in HTML. */
static size_t write_escaped(FILE *out, const unsigned char *text) {
  static const char named[] = "\bb\tt\nn\ff\rr\\\\";
  for (const char *name = named; *name != '\0'; name += 2)
    if (*text == (unsigned char)*name) {
      fputc('\\', out);
      fputc(name[1], out);
      return 1;
    }
  if (*text < 0x80) {
    write_unit(out, *text);
    return 1;
  }
  unsigned code_point;
  size_t length = decode(text, &code_point);
  if (code_point >= 0x10000) {
    write_unit(out, 0xD800U + ((code_point - 0x10000) >> 10));
    write_unit(out, 0xDC00U + ((code_point - 0x10000) & 0x3FFU));
  } else {
    write_unit(out, code_point);
  }
  return length;
}

static bool is_plain(unsigned char byte) {
  return byte >= ' ' && byte < 0x7F && strchr("\"&'+<>`\\", byte) == NULL;
}

static void write_string(FILE *out, const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  fputc('"', out);
  while (*at != '\0') {
    size_t plain = 0;
    while (is_plain(at[plain]))
      plain++;
    fwrite(at, 1, plain, out);
    at += plain;
    if (*at != '\0')
      at += write_escaped(out, at);
  }
  fputc('"', out);
}

/* --- fields ----------------------------------------------------------------------------------- */

static void write_text(FILE *out, const char *name, const char *text) {
  if (text == NULL)
    return;
  fprintf(out, ",\"%s\":", name);
  write_string(out, text);
}

static void write_texts(FILE *out, const char *name, const char *const *texts) {
  if (texts == NULL)
    return;
  fprintf(out, ",\"%s\":[", name);
  for (size_t i = 0; texts[i] != NULL; i++) {
    fputs(i > 0 ? "," : "", out);
    write_string(out, texts[i]);
  }
  fputc(']', out);
}

static void write_map(FILE *out, const char *name, const char *const *pairs) {
  if (pairs == NULL)
    return;
  fprintf(out, ",\"%s\":{", name);
  for (size_t i = 0; pairs[i] != NULL; i += 2) {
    fputs(i > 0 ? "," : "", out);
    write_string(out, pairs[i]);
    fputc(':', out);
    write_string(out, pairs[i + 1]);
  }
  fputc('}', out);
}

static void write_number(FILE *out, const char *name, int number) {
  if (number != 0)
    fprintf(out, ",\"%s\":%d", name, number);
}

static void write_bool(FILE *out, const char *name, bool value) {
  fprintf(out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void write_name(FILE *out, const char *name, const char *json, const char *text,
                       const char *otherwise) {
  if (json != NULL)
    fprintf(out, ",\"%s\":%s", name, json);
  else
    write_text(out, name, text != NULL ? text : otherwise);
}

static void write_step(FILE *out, const struct october_step *step) {
  fprintf(out, "{\"schemaVersion\":%d",
          step->schema_version != 0 ? step->schema_version : OCTOBER_SCHEMA_VERSION);
  write_text(out, "stepId", step->id);
  write_name(out, "kind", step->kind_json, step->kind, "run");
  write_text(out, "command", step->command);
  write_texts(out, "args", step->args);
  write_text(out, "workingDirectory", step->working_directory);
  write_map(out, "env", step->env);
  write_number(out, "timeoutSeconds",
               step->timeout_seconds != 0 ? step->timeout_seconds : OCTOBER_TIMEOUT_SECONDS);
  write_text(out, "path", step->path);
  write_text(out, "content", step->content);
  write_number(out, "maxDepth", step->max_depth);
  write_text(out, "pattern", step->pattern);
  write_text(out, "glob", step->glob);
  write_number(out, "headLimit", step->head_limit);
  write_number(out, "startLine", step->start_line);
  write_number(out, "lineCount", step->line_count);
  write_bool(out, "withLineNumbers", step->with_line_numbers);
  write_number(out, "contextBefore", step->context_before);
  write_number(out, "contextAfter", step->context_after);
  write_name(out, "outputMode", step->output_mode_json, step->output_mode, "content");
  write_bool(out, "withSizes", step->with_sizes);
  write_name(out, "sortBy", step->sort_by_json, step->sort_by, "name");
  write_texts(out, "excludeGlobs", step->exclude_globs);
  write_bool(out, "searchHidden", step->search_hidden);
  write_bool(out, "append", step->append);
  write_text(out, "renameTo", step->rename_to);
  fputc('}', out);
}

char *october_step_json(const struct october_step *step) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  write_step(out, step);
  assert_int_equal(fclose(out), 0);
  return text;
}
