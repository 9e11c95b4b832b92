#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "agent/files/access/atomic_file.h"
#include "base/staged_file.h"
#include "tests/support/as_user.h"
#include "tests/support/proc.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* Returns the error's text, or "", until the next call. Checks that no descriptor is left open. */
static const char *try_to_write(const struct tree *tree, const char *path, const char *content,
                                size_t length) {
  static struct error error;
  int descriptors = proc_fd_count(getpid());
  error.text[0] = '\0';
  int result = atomic_file_write(tree->fd, path, content, length, &error);
  assert_int_equal(result, error.text[0] == '\0' ? 0 : -1);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
  return error.text;
}

static void write_text(const struct tree *tree, const char *path, const char *text) {
  assert_string_equal(try_to_write(tree, path, text, strlen(text)), "");
}

static void expect_rejected(const struct tree *tree, const char *path, const char *text) {
  assert_string_equal(try_to_write(tree, path, "new", 3), text);
}

#define MARK "\xEF\xBB\xBF"

/* Links are followed and kept; missing directories are created. */
TREE_TEST(a_file_is_made_or_replaced) {
  static const struct {
    const char *path, *text, *file, *content; /* of `file`; NULL: of `path` */
  } rows[] = {
      {"file", "new\n", NULL, "new\n"},
      {"file", "another", NULL, "another"},
      {"file", "", NULL, ""},
      {"empty", "", NULL, ""},
      {"a/b//c/./file", "new", "a/b/c/file", "new"},
      {"a/b/../d/file", "new", "a/d/file", "new"},
      {"marked", MARK "old", NULL, MARK "old"}, /* a byte order mark is kept */
      {"marked", "new", NULL, MARK "new"},
      {"marked", MARK "newer", NULL, MARK "newer"},
      {"marked", "", NULL, MARK},
      {"half marked", "\xEF\xBB", NULL, "\xEF\xBB"},
      {"half marked", "new", NULL, "new"},
      {"first", "new", "b/file", MARK "new"}, /* by way of a/second */
      {"c/file", "newer", "b/file", MARK "newer"},
      {"a/dangling", "new", "made/for/file", "new"},
  };
  static const char *const links[][2] = {
      {"a/second", "../b/file"}, {"c", "b"}, {"a/dangling", "../made/for/file"}};
  tree_make(tree, "a/ b/ b/file=" MARK "old a/second>../b/file c>b a/dangling>../made/for/file");
  assert_int_equal(symlinkat(formatted("%s/a/second", tree->path), tree->fd, "first"), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    write_text(tree, rows[i].path, rows[i].text);
    tree_expect(tree, rows[i].file != NULL ? rows[i].file : rows[i].path, rows[i].content, 0644);
  }
  for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
    char found[64] = "";
    assert_true(readlinkat(tree->fd, links[i][0], found, sizeof found - 1) > 0);
    assert_string_equal(found, links[i][1]);
  }
  assert_int_equal(tree_count(tree, "."), 9);
  assert_int_equal(tree_count(tree, "b"), 1);
  struct error error = {.text = ""}; /* an absolute path ignores the directory */
  assert_int_equal(atomic_file_write(-1, tree_path(tree, "d/file"), "new", 3, &error), 0);
  tree_expect(tree, "d/file", "new", 0644);
  mode_t before = umask(027);
  write_text(tree, "masked", "new");
  umask(before);
  tree_expect(tree, "masked", "new", 0640);
}

/* A reader keeps the old content, and so do other hard links. */
TREE_TEST(an_open_file_keeps_the_old_content) {
  char text[32];
  tree_make(tree, "file=old");
  assert_int_equal(linkat(tree->fd, "file", tree->fd, "other", 0), 0);
  int reader = openat(tree->fd, "file", O_RDONLY | O_CLOEXEC);
  write_text(tree, "file", "newer");
  assert_int_equal(read(reader, text, sizeof text), 3);
  close(reader);
  tree_expect(tree, "other", "old", 0644);
}

/* A link in /proc leads to an open file. Its text may be no path, or no longer that of the file. */
TREE_TEST(links_in_proc_are_checked) {
  int ends[2];
  tree_make(tree, "file=old");
  int fd = openat(tree->fd, "file", O_RDONLY | O_CLOEXEC);
  const char *path = formatted("/proc/self/fd/%d", fd);
  write_text(tree, path, "new"); /* its text is correct */
  tree_expect(tree, "file", "new", 0644);
  const char *text = formatted("cannot write file (Operation not supported): %s", path);
  expect_rejected(tree, path, text); /* "…/file (deleted)", which was replaced */
  close(fd);
  assert_int_equal(tree_count(tree, "."), 1);
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  path = formatted("/proc/self/fd/%d", ends[1]);
  expect_rejected(tree, path, formatted("is a FIFO, not a regular file: %s", path));
  close(ends[0]);
  close(ends[1]);
}

/* --- writers who are not root: what they may not do, and whose the file is afterwards --------- */

enum { OTHER = 1234, TEAM = 1000 };

struct writing {
  const struct tree *tree;
  const char *path;
};

static int write_it(void *context, struct error *error) {
  const struct writing *self = context;
  return atomic_file_write(self->tree->fd, self->path, "new", 3, error);
}

struct writing_text {
  const struct tree *tree;
  const char *path, *text;
};

static int write_text_of(void *context, struct error *error) {
  const struct writing_text *self = context;
  return atomic_file_write(self->tree->fd, self->path, self->text, strlen(self->text), error);
}

static void write_as(const struct tree *tree, const char *path, uid_t user, gid_t group) {
  struct error error = {.text = ""};
  struct writing writing = {tree, path};
  (void)as_user(user, group, write_it, &writing, &error);
  assert_string_equal(error.text, "");
}

static void expect_rejected_as(const struct tree *tree, const char *path, uid_t user,
                               const char *text) {
  struct error error = {.text = ""};
  struct writing writing = {tree, path};
  int entries = tree_count(tree, ".");
  assert_int_equal(as_user(user, user, write_it, &writing, &error), -1);
  assert_string_equal(error.text, text);
  assert_int_equal(tree_count(tree, "."), entries);
}

static void make(const struct tree *tree, const char *name, uid_t user, gid_t group, mode_t mode) {
  tree_write(tree, name, "old", 0600);
  assert_int_equal(fchownat(tree->fd, name, user, group, 0), 0);
  assert_int_equal(fchmodat(tree->fd, name, mode, 0), 0);
}

static void expect_new(const struct tree *tree, const char *name, uid_t user, gid_t group,
                       mode_t mode) {
  struct stat file;
  tree_expect(tree, name, "new", mode);
  assert_int_equal(fstatat(tree->fd, name, &file, 0), 0);
  assert_int_equal(file.st_uid, user);
  assert_int_equal(file.st_gid, group);
}

static ino_t inode_of(const struct tree *tree, const char *name) {
  struct stat file;
  assert_int_equal(fstatat(tree->fd, name, &file, 0), 0);
  return file.st_ino;
}

/* A file that cannot keep its owner and group is written in place, under all of its names, which
   clears set-id bits. */
TREE_TEST(owner_group_and_mode_are_kept) {
  static const struct {
    uid_t owner;
    gid_t group;
    mode_t mode, kept;
    bool in_place;
  } rows[] = {
      {NOBODY, NOBODY, 04755, 04755, false},
      {NOBODY, NOBODY, 0200, 0200, false}, /* which is not readable */
      {0, NOBODY, 06776, 0776, true},
      {0, NOBODY, 0222, 0222, true},
      {NOBODY, OTHER, 0664, 0664, true},
      {OTHER, NOBODY, 0660, 0660, true},
  };
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  tree_make_directory(tree, "others", 0700);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *name = formatted("%zu", i), *other = formatted("others/%zu", i);
    make(tree, name, rows[i].owner, rows[i].group, rows[i].mode);
    assert_int_equal(linkat(tree->fd, name, tree->fd, other, 0), 0);
    write_as(tree, name, NOBODY, NOBODY);
    expect_new(tree, name, rows[i].owner, rows[i].group, rows[i].kept);
    assert_int_equal(inode_of(tree, name) == inode_of(tree, other), rows[i].in_place);
    assert_int_equal(tree_count(tree, "."), i + 2);
  }
}

/* Longer, shorter, of the same length, empty; and with a mark. */
TREE_TEST(a_file_written_in_place_has_only_the_new_content) {
  static const char *const texts[] = {"new",  "n", "", "as long as that", "as long as this",
                                      "short"};
  struct error error = {.text = ""};
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  for (int marked = 0; marked < 2; marked++) {
    tree_write(tree, "file", marked == 1 ? MARK "old" : "old", 0666);
    assert_int_equal(fchmodat(tree->fd, "file", 0666, 0), 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
      struct writing_text writing = {tree, "file", texts[i]};
      (void)as_user(NOBODY, NOBODY, write_text_of, &writing, &error);
      assert_string_equal(error.text, "");
      tree_expect(tree, "file", formatted("%s%s", marked == 1 ? MARK : "", texts[i]), 0666);
    }
    assert_int_equal(unlinkat(tree->fd, "file", 0), 0);
  }
}

/* A Kubernetes volume with an fsGroup: members of the group may write, and new files belong to
   the group. */
TREE_TEST(files_of_a_group_directory_keep_their_group) {
  struct stat directory;
  assert_int_equal(fchown(tree->fd, 0, TEAM), 0);
  assert_int_equal(fchmod(tree->fd, 02775), 0);
  make(tree, "file", 0, TEAM, 0664);
  write_as(tree, "file", OTHER, TEAM);
  expect_new(tree, "file", 0, TEAM, 0664);
  write_as(tree, "file", NOBODY, TEAM);
  expect_new(tree, "file", 0, TEAM, 0664);
  write_as(tree, "new/file", NOBODY, TEAM);
  expect_new(tree, "new/file", NOBODY, TEAM, 0644);
  assert_int_equal(fstatat(tree->fd, "new", &directory, 0), 0);
  assert_int_equal(directory.st_gid, TEAM);
  assert_int_equal(directory.st_mode, S_IFDIR | 02755);
}

/* Write-protected files and directories. The files of other users are written in place in such a
   directory, and in one like /tmp. */
TREE_TEST(a_write_without_permission_is_rejected) {
  static const struct {
    const char *path, *reason;
  } rows[] = {
      {"open/read-only", "cannot write file (Permission denied)"},
      {"open/root's", "cannot write file (Permission denied)"},
      {"closed/file", "cannot replace file (no file can be created beside it: Permission denied)"},
      {"closed/new", "cannot write file (Permission denied)"},
      {"closed/a/new", "cannot write file (Permission denied)"},
      {"hidden/x", "cannot write file (Permission denied)"},
  };
  assert_int_equal(fchmod(tree->fd, 0755), 0);
  tree_make_directory(tree, "open", 0777);
  tree_make_directory(tree, "closed", 0755);
  tree_make_directory(tree, "hidden", 0700);
  tree_make_directory(tree, "sticky", 01777);
  make(tree, "open/read-only", NOBODY, NOBODY, 0444);
  make(tree, "open/root's", 0, 0, 0644);
  make(tree, "closed/file", NOBODY, NOBODY, 0666);
  make(tree, "closed/other's", OTHER, OTHER, 0666);
  make(tree, "sticky/file", OTHER, OTHER, 0666);
  make(tree, "sticky/own", NOBODY, NOBODY, 0644);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_rejected_as(tree, rows[i].path, NOBODY,
                       formatted("%s: %s", rows[i].reason, rows[i].path));
  tree_expect(tree, "open/read-only", "old", 0444);
  tree_expect(tree, "closed/file", "old", 0666);
  assert_int_equal(tree_count(tree, "open") + tree_count(tree, "closed"), 4);
  write_as(tree, "closed/other's", NOBODY, NOBODY);
  expect_new(tree, "closed/other's", OTHER, OTHER, 0666);
  write_as(tree, "sticky/file", NOBODY, NOBODY);
  expect_new(tree, "sticky/file", OTHER, OTHER, 0666);
  write_as(tree, "sticky/own", NOBODY, NOBODY);
  expect_new(tree, "sticky/own", NOBODY, NOBODY, 0644);
  assert_int_equal(tree_count(tree, "sticky"), 2);
}

static int open_it(void *context, struct error *error) {
  const struct writing *self = context;
  (void)error;
  return openat(self->tree->fd, self->path, O_PATH | O_CLOEXEC);
}

/* By default the kernel does not follow the links of other users in a directory such as /tmp. */
TREE_TEST(links_are_followed_if_the_kernel_follows_them) {
  struct error error = {.text = ""};
  struct writing writing = {tree, "tmp/link"};
  tree_make_directory(tree, "tmp", 01777);
  make(tree, "file", NOBODY, NOBODY, 0666);
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  assert_int_equal(symlinkat("../file", tree->fd, "tmp/link"), 0);
  assert_int_equal(fchownat(tree->fd, "tmp/link", OTHER, OTHER, AT_SYMLINK_NOFOLLOW), 0);
  bool does = as_user(NOBODY, NOBODY, open_it, &writing, &error) >= 0;
  if (does)
    write_as(tree, "tmp/link", NOBODY, NOBODY);
  else
    expect_rejected_as(tree, "tmp/link", NOBODY, "cannot write file (Permission denied): tmp/link");
  tree_expect(tree, "file", does ? "new" : "old", 0666);
}

static int leave_a_hidden_file(void *context, struct error *error) {
  const struct tree *tree = context;
  struct staged_file staged;
  (void)error;
  return staged_file_begin(&staged, tree->fd, "file", 0600); /* the child's end leaves it behind */
}

/* Each user has its own hidden file, and an abandoned one does not block another user. */
TREE_TEST(each_user_has_a_hidden_file_of_its_own) {
  struct error error;
  assert_int_equal(fchmod(tree->fd, 01777), 0);
  make(tree, "file", NOBODY, NOBODY, 0644);
  assert_int_equal(as_user(OTHER, OTHER, leave_a_hidden_file, tree, &error), 0);
  assert_int_equal(as_user(NOBODY, NOBODY, leave_a_hidden_file, tree, &error), 0);
  assert_int_equal(tree_count(tree, "."), 3);
  write_as(tree, "file", NOBODY, NOBODY);
  expect_new(tree, "file", NOBODY, NOBODY, 0644);
  assert_int_equal(tree_count(tree, "."), 2); /* only the other user removes it */
}

/* --- access lists and extended attributes ----------------------------------------------------- */

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

/* The format of the kernel: version 2, then tag, rights and ID of each entry. */
struct access_list {
  uint32_t version;
  struct {
    uint16_t tag, rights;
    uint32_t id;
  } entries[7];
};

enum { OWNER = 1, USER = 2, GROUP = 4, NAMED_GROUP = 8, MASK = 16, OTHERS = 32 };
#define NO_ID UINT32_MAX

static void set_list(const struct tree *tree, const char *name, const char *attribute,
                     const struct access_list *list) {
  size_t count = 0;
  while (count < 7 && list->entries[count].tag != 0)
    count++;
  assert_int_equal(setxattr(tree_path(tree, name), attribute, list, 4 + count * 8, 0), 0);
}

/* NULL if there is none. */
static void expect_list(const struct tree *tree, const char *name, const struct access_list *list) {
  struct access_list found = {0};
  ssize_t length = getxattr(tree_path(tree, name), ACCESS, &found, sizeof found);
  assert_int_equal(length < 0 ? errno : 0, list == NULL ? ENODATA : 0);
  if (list != NULL)
    assert_memory_equal(&found, list, sizeof found);
}

static int read_it(void *context, struct error *error) {
  const struct writing *self = context;
  (void)error;
  return openat(self->tree->fd, self->path, O_RDONLY | O_CLOEXEC) >= 0 ? 0 : -1;
}

static bool may_read(const struct tree *tree, const char *name, uid_t user, gid_t group) {
  struct error error;
  return as_user(user, group, read_it, &(struct writing){tree, name}, &error) == 0;
}

static const struct access_list for_other = {
    2,
    {{OWNER, 6, NO_ID}, {USER, 4, OTHER}, {GROUP, 0, NO_ID}, {MASK, 4, NO_ID}, {OTHERS, 0, NO_ID}}};

/* The default access list of the directory applies only to new files, not to replaced ones. */
TREE_TEST(a_default_access_list_applies_to_new_files) {
  assert_int_equal(fchmod(tree->fd, 0755), 0);
  make(tree, "plain", 0, TEAM, 0640);
  make(tree, "listed", 0, TEAM, 0600);
  struct access_list own = for_other;
  own.entries[1].id = NOBODY;
  set_list(tree, "listed", ACCESS, &own);
  set_list(tree, ".", DEFAULT, &for_other);
  write_text(tree, "plain", "new");
  write_text(tree, "listed", "new");
  write_text(tree, "made", "new");
  write_text(tree, "below/made", "new");
  expect_new(tree, "plain", 0, TEAM, 0640);
  expect_list(tree, "plain", NULL);
  assert_false(may_read(tree, "plain", OTHER, OTHER));
  assert_true(may_read(tree, "plain", NOBODY, TEAM));
  expect_list(tree, "listed", &own);
  assert_false(may_read(tree, "listed", OTHER, OTHER));
  expect_list(tree, "made", &for_other);
  expect_list(tree, "below/made", &for_other);
}

TREE_TEST(an_access_list_is_kept_if_the_owner_cannot_be) {
  const struct access_list list = {2,
                                   {{OWNER, 6, NO_ID},
                                    {USER, 6, NOBODY},
                                    {GROUP, 4, NO_ID},
                                    {NAMED_GROUP, 4, TEAM},
                                    {MASK, 6, NO_ID},
                                    {OTHERS, 0, NO_ID}}};
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  make(tree, "file", OTHER, OTHER, 0600);
  set_list(tree, "file", ACCESS, &list);
  write_as(tree, "file", NOBODY, NOBODY);
  expect_new(tree, "file", OTHER, OTHER, 0660);
  expect_list(tree, "file", &list);
}

/* Attributes are kept if the writer may set them and if they do not describe the content. */
TREE_TEST(extended_attributes_are_kept) {
  static const struct {
    const char *name, *value;
    ssize_t length, kept[2]; /* kept by root, kept by others; -1 if not */
  } rows[] = {
      {"user.mark", "a\0b", 3, {3, 3}},
      {"user.empty", "", 0, {0, 0}},
      {"trusted.mark", "t", 1, {1, -1}},
      {"security.mark", "s", 1, {1, -1}},
      /* Version 2, one capability. */
      {"security.capability", "\0\0\0\2\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, {-1, -1}},
  };
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  for (int writer = 0; writer < 2; writer++) {
    const char *name = writer == 0 ? "root" : "other";
    char value[32];
    make(tree, name, NOBODY, NOBODY, 0644);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
      assert_int_equal(
          setxattr(tree_path(tree, name), rows[i].name, rows[i].value, (size_t)rows[i].length, 0),
          0);
    write_as(tree, name, writer == 0 ? 0 : NOBODY, writer == 0 ? 0 : NOBODY);
    expect_new(tree, name, NOBODY, NOBODY, 0644);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      ssize_t length = getxattr(tree_path(tree, name), rows[i].name, value, sizeof value);
      assert_int_equal(length, rows[i].kept[writer]);
      if (length > 0)
        assert_memory_equal(value, rows[i].value, (size_t)length);
    }
  }
}

static int write_without_attributes(void *context, struct error *error) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsetxattr, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = {sizeof program / sizeof *program, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return error_set(error, "no filter");
  return write_it(context, error);
}

TREE_TEST(an_access_list_that_cannot_be_kept_keeps_the_old_file) {
  struct error error;
  struct writing writing = {tree, "file"};
  make(tree, "file", 0, 0, 0600);
  set_list(tree, "file", ACCESS, &for_other);
  assert_int_equal(as_user(0, 0, write_without_attributes, &writing, &error), -1);
  assert_string_equal(
      error.text, "cannot replace file (its rights cannot be kept: Operation not supported): file");
  tree_expect(tree, "file", "old", 0640);
  expect_list(tree, "file", &for_other);
  assert_int_equal(tree_count(tree, "."), 1);
}
