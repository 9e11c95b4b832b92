#include "tests/test.h"
#include "wire/step_report.h"

#define EPOCH "1970-01-01T00:00:00.000+00:00"
#define ID "11111111-1111-1111-1111-111111111111"

/* 2026-05-05T10:00:00.123 */
#define CONTRACT_MS INT64_C(1777975200123)

static struct step_event event(enum step_event_kind kind, const char *line, size_t length) {
  return (struct step_event){
      .schema_version = 1,
      .kind = kind,
      .step_id = ID,
      .step_id_length = strlen(ID),
      .line = line,
      .line_length = length,
      .timestamp = EPOCH,
      .seq = 2,
  };
}

static void assert_writes(const struct step_event *self, const char *json) {
  size_t length = step_event_length(self);
  /* An exact buffer, for the sanitizer. */
  char *out = malloc(length);
  assert_non_null(out);
  assert_ptr_equal(step_event_write(self, out), out + length);
  if (length != strlen(json) || memcmp(out, json, length) != 0)
    fail_msg("%.*s, not %s", (int)length, out, json);
  free(out);
}

TEST(an_event_matches_the_golden_file) {
  char golden[512] = "";
  FILE *file = fopen("tests/unit/golden/step_event.json", "r");
  assert_non_null(file);
  assert_true(fread(golden, 1, sizeof golden - 1, file) > 0);
  assert_int_equal(fclose(file), 0);

  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  step_event_timestamp(timestamp, CONTRACT_MS);
  struct step_event self = event(STEP_EVENT_STDOUT, "Cloning into '.'...", 19);
  self.timestamp = timestamp;
  assert_writes(&self, golden);
}

/* The JSON before the kind and after the line. */
#define BEFORE "{'schemaVersion':1,'stepId':'" ID "','kind':"
#define AFTER ",'timestamp':'" EPOCH "','seq':"

TEST(an_event_has_its_fields_in_order) {
  static const struct {
    const char *line;
    size_t length;
    const char *json;
    enum step_event_kind kind;
    bool partial;
  } rows[] = {
      {NULL, 0, BEFORE "'started','line':''" AFTER "2}", STEP_EVENT_STARTED, false},
      {"", 0, BEFORE "'stdout','line':''" AFTER "2}", STEP_EVENT_STDOUT, false},
      {"x", 1, BEFORE "'stderr','line':'x'" AFTER "2}", STEP_EVENT_STDERR, false},
      {NULL, 0, BEFORE "'completed','line':''" AFTER "2}", STEP_EVENT_COMPLETED, false},
      {"50%", 3, BEFORE "'stderr','line':'50%'" AFTER "2,'partial':true}", STEP_EVENT_STDERR, true},
      {"a\0\"\xFF\t\x1B", 6,
       BEFORE "'stdout','line':'a\\u0000\\'\xEF\xBF\xBD\\t\\u001b'" AFTER "2}", STEP_EVENT_STDOUT,
       false}, /* a line may be any bytes */
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct step_event self = event(rows[i].kind, rows[i].line, rows[i].length);
    self.partial = rows[i].partial;
    assert_writes(&self, quoted(rows[i].json));
  }
}

static int64_t read_versioned(const char *json, const char *step_id, int *version) {
  /* Reads an exact copy, for the sanitizer. */
  size_t length = strlen(json);
  char *bytes = malloc(length > 0 ? length : 1);
  assert_non_null(bytes);
  memcpy(bytes, json, length);
  int64_t seq = step_event_read_seq(bytes, length, step_id, version);
  free(bytes);
  return seq;
}

static int64_t read_seq(const char *json, const char *step_id) {
  int version;
  return read_versioned(json, step_id, &version);
}

TEST(the_schema_version_can_be_read_back) {
  static const struct {
    const char *json;
    int version;
  } rows[] = {{"{'schemaVersion':1,'stepId':'s','seq':3}", 1},
              {"{'schemaVersion':2,'stepId':'s','seq':3}", 2},
              {"{'stepId':'s','seq':3}", 1},
              {"{'schemaVersion':'2','stepId':'s','seq':3}", 1},
              {"{'schemaVersion':7,'stepId':'s','seq':3}", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int version = 0;
    assert_int_equal(read_versioned(quoted(rows[i].json), "s", &version), 3);
    assert_int_equal(version, rows[i].version);
  }
}

TEST(the_seq_can_be_read_back) {
  static const uint64_t seqs[] = {1, 2, 10000, UINT64_C(1) << 52};
  for (size_t i = 0; i < sizeof seqs / sizeof seqs[0]; i++) {
    for (int partial = 0; partial < 2; partial++) {
      char json[256];
      struct step_event self = event(STEP_EVENT_STDERR, "\"seq\":7\0", 8);
      self.step_id = "a\\\"b\\n";
      self.step_id_length = strlen(self.step_id);
      self.seq = seqs[i];
      self.partial = partial;
      *step_event_write(&self, json) = '\0';
      assert_int_equal(read_seq(json, "a\"b\n"), seqs[i]);
      assert_int_equal(read_seq(json, "a\"b"), -1);
    }
  }
}

TEST(other_json_has_no_seq) {
  static const char others[] =
      " x { null [] {} {'stepId':'s'} {'seq':3} {'stepId':'S','seq':3} "
      "{'stepId':'s2','seq':3} {'stepId':3,'seq':3} {'stepId':'s','Seq':3} "
      "{'stepId':'s','seq':'3'} {'stepId':'s','seq':null} {'stepId':'s','seq':0} "
      "{'stepId':'s','seq':-3} {'stepId':'s','seq':1e16} {'stepId':'s','seq':1e999} "
      "[{'stepId':'s','seq':3}]"; /* separated by single spaces; the first is empty */
  const char *other;
  for (size_t i = 0; (other = nth_word(others, i)) != NULL; i++)
    if (read_seq(quoted(other), "s") != -1)
      fail_msg("%s", other);
  assert_int_equal(read_seq(quoted("{'stepId':'s','seq':3}"), "s"), 3);
}
