#pragma once

#include <stdint.h>

/* The format of an archive: POSIX.1-2017, pax, "ustar Interchange Format", with the additions of
   GNU tar. tar_pack.c and tar_unpack.c share it. Its numbers are octal digits. */
#define TAR_BLOCK 512

struct tar_header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
  char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};

_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is a block");

enum tar_type {
  TAR_FILE = '0',
  TAR_OLD_FILE = '\0',
  TAR_HARD_LINK = '1',
  TAR_SYMBOLIC_LINK = '2',
  TAR_DIRECTORY = '5',
  TAR_CONTIGUOUS_FILE = '7',
  TAR_PAX = 'x',
  TAR_PAX_GLOBAL = 'g',
  TAR_GNU_NAME = 'L',
  TAR_GNU_LINK = 'K'
};
