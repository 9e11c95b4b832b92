#include "bench/source_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#define FILES_IN_DIRECTORY 24
#define COUNT(array) (sizeof(array) / sizeof *(array))

struct forest {
  uint64_t state;
  char directory[PATH_MAX];
  char text[256 * 1024]; /* of one file */
  size_t length;
  bool crlf;
  struct source_tree made;
};

static const char *const nouns[] = {
    "Account",  "Address", "Agent",   "Batch",    "Buffer",  "Cache",    "Channel",  "Client",
    "Config",   "Context", "Cursor",  "Customer", "Entry",   "Event",    "Factory",  "Field",
    "Filter",   "Gateway", "Graph",   "Handler",  "Header",  "Index",    "Invoice",  "Item",
    "Job",      "Journal", "Key",     "Ledger",   "Lock",    "Mapper",   "Message",  "Metric",
    "Node",     "Option",  "Order",   "Packet",   "Page",    "Parser",   "Payment",  "Policy",
    "Price",    "Product", "Profile", "Queue",    "Record",  "Registry", "Report",   "Request",
    "Resource", "Result",  "Route",   "Rule",     "Schema",  "Scope",    "Segment",  "Session",
    "Signal",   "Source",  "State",   "Stream",   "Table",   "Task",     "Template", "Token",
    "Topic",    "Tree",    "User",    "Value",    "Version", "Worker",
};
static const char *const verbs[] = {
    "add",      "append", "apply",  "begin",  "check",   "close",  "collect", "compare",
    "compute",  "copy",   "create", "decode", "delete",  "drain",  "emit",    "encode",
    "ensure",   "find",   "flush",  "format", "get",     "load",   "lock",    "merge",
    "move",     "notify", "open",   "parse",  "publish", "push",   "read",    "refresh",
    "release",  "remove", "render", "reset",  "resolve", "save",   "send",    "set",
    "sort",     "split",  "start",  "stop",   "store",   "submit", "trim",    "update",
    "validate", "write",
};
static const char *const modules[] = {
    "core",    "billing", "catalog",  "checkout", "delivery",  "identity", "inventory",
    "ledger",  "mail",    "payments", "portal",   "reporting", "search",   "shipping",
    "storage", "tasks",   "testing",  "tooling",  "web",       "workflow",
};
static const char *const suffixes[] = {".cs", ".cs", ".cs", ".c", ".h", ".ts", ".rs", ".java"};
static const char *const skipped[] = {"node_modules", "obj", ".git", "dist"};

/* Not rand(): the tree must not depend on the C library. */
static size_t below(struct forest *self, size_t limit) {
  self->state ^= self->state << 13;
  self->state ^= self->state >> 7;
  self->state ^= self->state << 17;
  return (size_t)((self->state >> 11) % limit);
}

/* Words and numbers for one statement. They are drawn beforehand, because C does not define the
   order in which arguments are evaluated. */
struct words {
  const char *noun[6];
  const char *verb[4];
  size_t number[2];
};

static struct words draw(struct forest *self) {
  struct words words;
  for (size_t i = 0; i < COUNT(words.noun); i++)
    words.noun[i] = nouns[below(self, COUNT(nouns))];
  for (size_t i = 0; i < COUNT(words.verb); i++)
    words.verb[i] = verbs[below(self, COUNT(verbs))];
  for (size_t i = 0; i < COUNT(words.number); i++)
    words.number[i] = below(self, 1000);
  return words;
}

static void line(struct forest *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void line(struct forest *self, const char *format, ...) {
  size_t capacity = sizeof self->text - self->length;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(self->text + self->length, capacity, format, arguments);
  va_end(arguments);
  assert_in_range(length, 0, capacity - 3);
  self->length += (size_t)length;
  if (self->crlf)
    self->text[self->length++] = '\r';
  self->text[self->length++] = '\n';
  self->made.lines++;
}

static void comment(struct forest *self) {
  struct words w = draw(self);
  switch (below(self, 160)) {
  case 0:
    line(self, "      // TODO: %s the %s before the %s is done", w.verb[0], w.noun[0], w.noun[1]);
    break;
  case 1:
    line(self, "      // FIXME: the %s may be stale here", w.noun[0]);
    break;
  case 2:
    line(self, "      // HACK: %s %s twice, the gateway wants it", w.verb[0], w.noun[0]);
    break;
  case 3:
    line(self, "      // \xC3\x84ndert den %s \xE2\x80\x94 \xE6\xA4\x9C\xE8\xA8\xBC", w.noun[0]);
    break;
  default:
    line(self, "      // Then %s what the %s has for this %s, if there is one.", w.verb[0],
         w.noun[0], w.noun[1]);
  }
}

static void statement(struct forest *self) {
  struct words w = draw(self);
  switch (below(self, 12)) {
  case 0:
    comment(self);
    break;
  case 1:
    line(self, "      if (%s%s == null || !%s.is_open()) {", w.verb[0], w.noun[0], w.verb[1]);
    line(self, "        return %zu;", w.number[0]);
    line(self, "      }");
    break;
  case 2:
    line(self, "      for (size_t i = 0; i < %s.count; i++) {", w.verb[0]);
    line(self, "        total += %s%s(i, \"%s\");", w.verb[1], w.noun[0], w.noun[1]);
    line(self, "      }");
    break;
  case 3:
    line(self, "      log.debug(\"%s %s: {} of %zu\", %s);", w.verb[0], w.noun[0], w.number[0],
         w.verb[1]);
    break;
  case 4:
    line(self, "%s", "");
    break;
  case 5:
    if (w.number[0] < 125)
      line(self, "      throw new %s%sException(\"%s\");", w.noun[0], w.noun[1], w.noun[2]);
    else
      line(self, "      assert(%s%s != %zu);", w.verb[0], w.noun[0], w.number[1]);
    break;
  default:
    line(self, "      var %s%s = this.%s%s.%s%s(%s, %zu);", w.verb[0], w.noun[0], w.verb[1],
         w.noun[1], w.verb[2], w.noun[2], w.verb[3], w.number[0]);
  }
}

static void method(struct forest *self) {
  struct words w = draw(self);
  line(self, "  /** %s the %s of a %s. */", w.verb[0], w.noun[0], w.noun[1]);
  line(self, "  public static %s %s%s(%s first, int second) {", w.noun[2], w.verb[1], w.noun[3],
       w.noun[4]);
  if (below(self, 250) == 0)
    line(self, "    using (var scope = new TransactionScope()) {");
  for (size_t left = 3 + below(self, 18); left > 0; left--)
    statement(self);
  line(self, "  }");
  line(self, "%s", "");
}

static void class(struct forest *self) {
  struct words w = draw(self);
  self->length = 0;
  self->crlf = below(self, 20) == 0;
  if (below(self, 20) == 0)
    self->length = (size_t)snprintf(self->text, sizeof self->text, "\xEF\xBB\xBF");
  line(self, "// Copyright of the %s project. All rights reserved.", w.noun[0]);
  for (size_t left = 2 + below(self, 10); left > 0; left--) {
    struct words used = draw(self);
    line(self, "using Company.%s.%s;", used.noun[0], used.noun[1]);
  }
  line(self, "public class %s%s {", w.noun[1], w.noun[2]);
  size_t methods = 1 + below(self, 8);
  if (below(self, 16) == 0)
    methods *= 6;
  for (; methods > 0; methods--)
    method(self);
  line(self, "}");
}

static void write_file(const char *path, const char *bytes, size_t length) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, bytes, length) != (ssize_t)length || close(fd) != 0)
    fail_msg("%s: %s", path, strerror(errno));
}

static void make_directory(const char *path) {
  if (mkdir(path, 0755) != 0 && errno != EEXIST)
    fail_msg("%s: %s", path, strerror(errno));
}

/* Makes the next directory: a module, and up to four levels in it. */
static void next_directory(struct forest *self, const char *root, size_t number) {
  struct words w = draw(self);
  int length = snprintf(self->directory, sizeof self->directory, "%s/%s", root,
                        modules[number % COUNT(modules)]);
  make_directory(self->directory);
  for (size_t depth = 1 + below(self, 4); depth > 0; depth--) {
    length += snprintf(self->directory + length, sizeof self->directory - (size_t)length, "/%s",
                       depth == 1 ? w.noun[depth] : w.verb[depth - 1]);
    make_directory(self->directory);
  }
  length +=
      snprintf(self->directory + length, sizeof self->directory - (size_t)length, "/%zu", number);
  assert_in_range(length, 1, sizeof self->directory - 64);
  make_directory(self->directory);
}

/* Adds a directory that searches skip, full of matches, and a binary file. */
static void add_skipped_files(struct forest *self) {
  static const char text[] = "TODO TransactionScope SomeException\n";
  char path[PATH_MAX + 64];
  const char *name = skipped[below(self, COUNT(skipped))];
  (void)snprintf(path, sizeof path, "%s/%s", self->directory, name);
  make_directory(path);
  for (int i = 0; i < 4; i++) {
    (void)snprintf(path, sizeof path, "%s/%s/file%d.js", self->directory, name, i);
    write_file(path, text, sizeof text - 1);
  }
  (void)snprintf(path, sizeof path, "%s/logo.png", self->directory);
  char image[4096];
  for (size_t i = 0; i < sizeof image; i++)
    image[i] = (char)(i < 512 && i % 2 == 1 ? 0 : below(self, 256));
  write_file(path, image, sizeof image);
  self->made.omitted += 5;
}

struct source_tree source_tree_make(const char *root, size_t files, unsigned long long seed) {
  struct forest *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->state = seed;
  for (size_t i = 0; i < files; i++) {
    if (i % FILES_IN_DIRECTORY == 0) {
      next_directory(self, root, i / FILES_IN_DIRECTORY);
      if (below(self, 16) == 0)
        add_skipped_files(self);
    }
    class(self);
    struct words w = draw(self);
    char path[PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%s%s%zu%s", self->directory, w.noun[0], w.noun[1], i,
                   suffixes[below(self, COUNT(suffixes))]);
    write_file(path, self->text, self->length);
    self->made.files++;
    self->made.bytes += self->length;
  }
  struct source_tree made = self->made;
  free(self);
  return made;
}
