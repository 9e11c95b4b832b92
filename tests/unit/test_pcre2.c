/* The search engine as it is compiled here: what patterns may say, and that a kernel which forbids
 * executable memory makes it slower, not wrong. */

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tests/support/no_jit.h"
#include "tests/test.h"

#define OPTIONS (PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF)

/* Where a pattern first matches; length is that of the match. */
struct found {
  int result;
  size_t offset, length;
};

struct sample {
  const char *pattern, *target, *match; /* no match: NULL */
};

/* \x81 and \xff are no UTF-8. */
static const struct sample samples[] = {
    {"\\b\\w+\\b", " \xc3\xa9t\xc3\xa9 ", "\xc3\xa9t\xc3\xa9"},
    {"(?i)\xc3\x89T\xc3\x89", "\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9"},
    {"(?<=get)[A-Z]\\w*(?=\\()", "x.getName(y)", "Name"},
    {"(?<!\\.)\\bname\\b(?!\\()", "a.name name() name", "name"},
    {"(a+)\\1b", "aaab", "aab"},
    {"\\w+", "\xff\x81word\x81\xff", "word"},
    {"\\p{L}", "\xff\x81 42", NULL},
};

enum { SAMPLE_COUNT = sizeof samples / sizeof *samples };

static pcre2_code *compile(const char *pattern) {
  int error = 0;
  size_t offset = 0;
  return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, OPTIONS, &error, &offset, NULL);
}

static struct found find(const pcre2_code *code, const char *target) {
  pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
  struct found found = {
      .result = pcre2_match(code, (PCRE2_SPTR)target, strlen(target), 0, 0, data, NULL)};
  if (found.result > 0) {
    const size_t *ends = pcre2_get_ovector_pointer(data);
    found.offset = ends[0];
    found.length = ends[1] - ends[0];
  }
  pcre2_match_data_free(data);
  return found;
}

static bool finds(const pcre2_code *code, const struct sample *sample) {
  struct found found = find(code, sample->target);
  if (sample->match == NULL)
    return found.result == PCRE2_ERROR_NOMATCH;
  return found.result > 0 && found.length == strlen(sample->match) &&
         memcmp(sample->target + found.offset, sample->match, found.length) == 0;
}

static size_t jit_size(const pcre2_code *code) {
  size_t size = 0;
  assert_int_equal(pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &size), 0);
  return size;
}

TEST(it_is_what_was_asked_for) {
  uint32_t value = 0;
  assert_true(pcre2_config(PCRE2_CONFIG_UNICODE, &value) >= 0);
  assert_int_equal(value, 1);
  assert_true(pcre2_config(PCRE2_CONFIG_JIT, &value) >= 0);
  assert_int_equal(value, 1);
  assert_true(pcre2_config(PCRE2_CONFIG_COMPILED_WIDTHS, &value) >= 0);
  assert_int_equal(value, 1); /* bytes, and nothing wider */
  char version[64];
  assert_in_range(pcre2_config(PCRE2_CONFIG_VERSION, NULL), 1, sizeof version);
  assert_true(pcre2_config(PCRE2_CONFIG_VERSION, version) > 0);
  assert_memory_equal(version, "10.", 3);
}

TEST(interpreted_and_compiled_it_finds_the_same) {
  for (size_t i = 0; i < 2 * SAMPLE_COUNT; i++) {
    const struct sample *sample = &samples[i / 2];
    bool compiled = i % 2 == 1;
    pcre2_code *code = compile(sample->pattern);
    assert_non_null(code);
    if (compiled)
      assert_int_equal(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE), 0);
    assert_int_equal(jit_size(code) > 0, compiled);
    if (!finds(code, sample))
      fail_msg("%s", sample->pattern);
    pcre2_code_free(code);
  }
}

/* 0, or what is wrong; 100 + the number of the sample that is not found. */
static int search_without_executable_memory(void) {
  for (int i = 0; i < SAMPLE_COUNT; i++) {
    pcre2_code *code = compile(samples[i].pattern);
    if (code == NULL)
      return 3;
    if (pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) != PCRE2_ERROR_NOMEMORY)
      return 4;
    if (!finds(code, &samples[i]))
      return 100 + i;
    pcre2_code_free(code);
  }
  return 0;
}

TEST(without_executable_memory_it_interprets) {
  no_jit_run(search_without_executable_memory);
}
