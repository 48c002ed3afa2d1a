/* SPDX-License-Identifier: Apache-2.0 */
/* Files of states that are damaged, foreign, or of something else: a clear error, and nothing changed.
 * And saving where it can't be done, or where others do the same. */
#include "states_rig.h"

#include "kt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* An optimizer that has made three updates, and the file of that. */
typedef struct fixture {
    states_rig_t rig;
    bytes_t saved;
    uint64_t digest;
    char path[700], bent_path[700];
} fixture_t;

static void set_up_with(fixture_t *f, const char *name, int integers, int dump_optimizer)
{
    *f = (fixture_t){.rig = states_rig(rig_opt(name, NULL, 0), integers)};
    snprintf(f->path, sizeof(f->path), "%s", states_path("saved"));
    snprintf(f->bent_path, sizeof(f->bent_path), "%s", states_path("bent"));
    states_rig_update(&f->rig, 3);
    KT_OK(states_rig_save(&f->rig, f->path, dump_optimizer));
    f->saved = bytes_read(f->path);
    f->digest = states_rig_digest(&f->rig);
}

static void set_up(fixture_t *f)
{
    set_up_with(f, "adam", 0, 1);
}

static void tear_down(fixture_t *f)
{
    bytes_release(&f->saved);
    states_rig_release(&f->rig);
}

/* Loading these bytes is an error of that kind whose text holds `part` and the path. */
static void check_refused(fixture_t *f, const bytes_t *bytes, kvs_status_t want, const char *part)
{
    bytes_write(f->bent_path, bytes);
    KT_FAIL(states_rig_load(&f->rig, f->bent_path), want, part);
    KT_HAS(kvs_last_error(), f->bent_path);
    KT_TRUE(states_rig_digest(&f->rig) == f->digest);
}

static void check_bent(fixture_t *f, const char *old, const char *new_text, kvs_status_t want,
                       const char *part)
{
    bytes_t bent = bytes_bend(&f->saved, old, new_text);

    check_refused(f, &bent, want, part);
    bytes_release(&bent);
}

/* ---- Damage -------------------------------------------------------------------------------------- */

static void a_file_truncated_anywhere_is_refused(void)
{
    fixture_t f;

    set_up(&f);
    for (size_t n = 0; n < f.saved.n; n++) {
        bytes_t cut = {f.saved.data, n};

        bytes_write(f.bent_path, &cut);
        KT_FAIL(states_rig_load(&f.rig, f.bent_path), KVS_ERR_FORMAT, "truncated");
    }
    KT_TRUE(states_rig_digest(&f.rig) == f.digest);
    tear_down(&f);
}

static void a_file_that_goes_on_is_refused(void)
{
    fixture_t f;
    bytes_t longer;

    set_up(&f);
    longer = (bytes_t){calloc(f.saved.n + 1, 1), f.saved.n + 1};
    memcpy(longer.data, f.saved.data, f.saved.n);
    check_refused(&f, &longer, KVS_ERR_FORMAT, "too long");
    bytes_release(&longer);
    tear_down(&f);
}

static void every_flipped_byte_is_noticed(void)
{
    static const unsigned char masks[] = {0x01, 0x20, 0x80, 0xFF};
    fixture_t f;
    int n_loaded = 0;

    set_up(&f);
    for (size_t i = 0; i < f.saved.n; i++) {
        for (size_t m = 0; m < sizeof(masks); m++) {
            f.saved.data[i] = (char)(f.saved.data[i] ^ masks[m]);
            bytes_write(f.bent_path, &f.saved);
            f.saved.data[i] = (char)(f.saved.data[i] ^ masks[m]);
            if (states_rig_load(&f.rig, f.bent_path) != KVS_ERR_FORMAT) {
                printf("\n  byte %zu of %zu, mask %02x: not refused", i, f.saved.n, masks[m]);
                n_loaded++;
            }
        }
    }
    KT_INT(n_loaded, 0);
    KT_TRUE(states_rig_digest(&f.rig) == f.digest);
    tear_down(&f);
}

static void what_is_damaged_is_told(void)
{
    fixture_t f;

    set_up(&f);
    f.saved.data[60] ^= 1;
    bytes_write(f.bent_path, &f.saved);
    KT_FAIL(states_rig_load(&f.rig, f.bent_path), KVS_ERR_FORMAT, "checksum of its header");
    f.saved.data[60] ^= 1;
    f.saved.data[f.saved.n - 1] ^= 1;
    bytes_write(f.bent_path, &f.saved);
    KT_FAIL(states_rig_load(&f.rig, f.bent_path), KVS_ERR_FORMAT, "checksum of tensor 'var/w'");
    f.saved.data[f.saved.n - 1] ^= 1;
    KT_TRUE(states_rig_digest(&f.rig) == f.digest);
    tear_down(&f);
}

/* ---- Foreign files ------------------------------------------------------------------------------- */

static void check_text_refused(fixture_t *f, const char *text, size_t n, const char *part)
{
    bytes_t bytes = {(char *)(uintptr_t)text, n};

    check_refused(f, &bytes, KVS_ERR_FORMAT, part);
}

static void foreign_files_are_refused(void)
{
    static const char plain[] = "this is a text that somebody wrote, with no states in it at all";
    static const char pickle[] = "\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94(K\0K\x01u.";
    static const char safetensors[] = "\x40\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},"
                                      "\"a\":{\"dtype\":\"U8\",\"shape\":[],\"d             ";
    fixture_t f;

    set_up(&f);
    check_text_refused(&f, "", 0, "truncated");
    check_text_refused(&f, plain, sizeof(plain), "is not a file of optimizer states");
    check_text_refused(&f, pickle, sizeof(pickle), "is not a file of optimizer states");
    check_text_refused(&f, safetensors, 8 + 64, "is not a file of optimizer states");
    tear_down(&f);
}

static void a_file_from_the_future_is_refused_by_its_version(void)
{
    fixture_t f;

    set_up(&f);
    check_bent(&f, "\"format_version\":\"1\"", "\"format_version\":\"2\"", KVS_ERR_FORMAT,
               "version 2, this library reads up to 1");
    check_bent(&f, "\"format_version\":\"1\"", "\"format_version\":\"99999999999999999999999\"",
               KVS_ERR_FORMAT, "version 9999999999");
    check_bent(&f, "\"format_version\":\"1\"", "\"format_version\":\"0\"", KVS_ERR_FORMAT,
               "version");
    check_bent(&f, "\"format_version\":\"1\"", "\"format_version\":\"\"", KVS_ERR_FORMAT,
               "version");
    tear_down(&f);
}

static void a_header_that_would_be_too_long_is_not_read(void)
{
    static const uint64_t lengths[] = {100000001, UINT64_C(1) << 40, UINT64_MAX, UINT64_MAX - 7};
    fixture_t f;

    set_up(&f);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        bytes_t bytes = {(char *)(uintptr_t)&lengths[i], sizeof(lengths[i])};

        bytes_write(f.bent_path, &bytes);
        KT_INT(truncate(f.bent_path, INT64_C(200000000)), 0);
        KT_FAIL(states_rig_load(&f.rig, f.bent_path), KVS_ERR_FORMAT, "more than 100000000");
    }
    KT_INT(unlink(f.bent_path), 0);
    KT_TRUE(states_rig_digest(&f.rig) == f.digest);
    tear_down(&f);
}

static void what_is_no_regular_file_is_refused(void)
{
    fixture_t f;

    set_up(&f);
    KT_FAIL(states_rig_load(&f.rig, states_path("nowhere")), KVS_ERR_NOT_FOUND, "nowhere");
    KT_FAIL(states_rig_load(&f.rig, "/nonexistent/dir/file"), KVS_ERR_NOT_FOUND, "No such file");
    KT_FAIL(states_rig_load(&f.rig, "/proc/self/mem/x"), KVS_ERR_IO, "Not a directory");
    KT_FAIL(states_rig_load(&f.rig, "/"), KVS_ERR_IO, "regular file");
    KT_FAIL(states_rig_load(&f.rig, "/dev/zero"), KVS_ERR_IO, "regular file");
    KT_INT(mkfifo(f.bent_path, 0600), 0); /* nobody writes into it: opening it must not wait */
    KT_FAIL(states_rig_load(&f.rig, f.bent_path), KVS_ERR_IO, "regular file");
    KT_FAIL(states_rig_save(&f.rig, f.bent_path, 1), KVS_ERR_IO, "regular file");
    KT_INT(unlink(f.bent_path), 0);
    KT_TRUE(states_rig_digest(&f.rig) == f.digest);
    tear_down(&f);
}

/* ---- Headers with a right checksum and wrong content --------------------------------------------- */

static void tensors_that_make_no_sense_are_refused(void)
{
    static const struct {
        const char *old, *new_text, *part;
    } rows[] = {
        {"\"mean/b\":{", "\"mean/w\":{", "stands twice"},
        {"\"mean/b\":{", "\"mean/c\":{", "checksum"},
        {"\"shape\":[5]", "\"shape\":[6]", "don't fit"},
        {"\"shape\":[5]", "\"shape\":[-5]", "shape"},
        {"\"shape\":[5]", "\"shape\":[5.0]", "whole number"},
        {"\"shape\":[5]", "\"shape\":[\"5\"]", "number"},
        {"\"shape\":[5]", "\"shape\":[4611686018427387904,4,5]", "shape"},
        {"\"shape\":[5]", "\"shape\":[2305843009213693957]", "don't fit"},
        {"\"shape\":[5]", "\"shape\":[99999999999999999999]", "too large"},
        {"\"shape\":[5]",
         "\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,5]",
         "dimensions"},
        {"\"dtype\":\"F64\"", "\"dtype\":\"F63\"", "dtype"},
        {"\"dtype\":\"F64\"", "\"dtype\":\"F32\"", "don't fit"},
        {"\"dtype\":\"F64\"", "\"dtype\":5", "string"},
        {"\"dtype\":\"F64\",", "", "lacks"},
        {"\"dtype\":\"F64\",", "\"dtype\":\"F64\",\"dtype\":\"F64\",", "each once"},
        {"\"dtype\":\"F64\",", "\"dtype\":\"F64\",\"more\":1,", "each once"},
        {"\"data_offsets\":[8,48]", "\"data_offsets\":[7,47]", "begins at byte 7"},
        {"\"data_offsets\":[8,48]", "\"data_offsets\":[9,49]", "begins at byte 9"},
        {"\"data_offsets\":[8,48]", "\"data_offsets\":[8]", "data_offsets"},
        {"\"data_offsets\":[8,48]", "\"data_offsets\":[8,48,8]", "data_offsets"},
        {"\"data_offsets\":[8,48]", "\"data_offsets\":[48,8]", "data_offsets"},
        {"\"data_offsets\":[8,48]", "\"data_offsets\":[-8,32]", "data_offsets"},
        {"\"data_offsets\":[8,48]", "\"data_offsets\":[9223372036854775767,9223372036854775807]",
         "begins at byte"},
        {"\"data_offsets\":[8,48]", "\"data_offsets\":[8,1e2]", "whole number"},
        {"\"data_offsets\":[8,48]}", "\"data_offsets\":[8,48]},", "string"},
        {"\"data_offsets\":[8,48]}", "\"data_offsets\":[8,48]}}", "end"},
    };
    fixture_t f;

    set_up(&f);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_bent(&f, rows[i].old, rows[i].new_text, KVS_ERR_FORMAT, rows[i].part);
    }
    tear_down(&f);
}

static void notes_that_make_no_sense_are_refused(void)
{
    static const struct {
        const char *old, *new_text;
        kvs_status_t status;
        const char *part;
    } rows[] = {
        {"\"product\":", "\"produkt\":", KVS_ERR_FORMAT, "note 'produkt' is unknown"},
        {"\"num_update\":\"3\",", "", KVS_ERR_FORMAT, "note 'num_update' is missing"},
        {"\"num_update\":\"3\"", "\"num_update\":\"2\"", KVS_ERR_FORMAT, "below the count"},
        {"\"num_update\":\"3\"", "\"num_update\":\"3.5\"", KVS_ERR_FORMAT, "num_update: byte"},
        {"\"num_update\":\"3\"", "\"num_update\":\"3 4\"", KVS_ERR_FORMAT, "end"},
        {"\"num_update\":\"3\"", "\"num_update\":3", KVS_ERR_FORMAT, "string"},
        {"\"num_update\":\"3\"", "\"num_update\":\"3\",\"num_update\":\"3\"", KVS_ERR_FORMAT,
         "twice"},
        {"\"product\":\"1.0\"", "\"product\":\"1e400\"", KVS_ERR_FORMAT, "too large"},
        {"\\\"b\\\":3", "\\\"b\\\":0", KVS_ERR_FORMAT, "below 1"},
        {"\\\"b\\\":3", "\\\"c\\\":3", KVS_ERR_FORMAT, "no key"},
        {"\\\"b\\\":3", "\\\"w\\\":3", KVS_ERR_FORMAT, "twice"},
        {"\\\"beta1\\\":0.9", "\\\"beta1\\\":1.5", KVS_ERR_FORMAT, "beta1"},
        {"\\\"beta1\\\":0.9", "\\\"beta3\\\":0.9", KVS_ERR_FORMAT, "beta3"},
        {"\\\"beta1\\\":0.9", "\\\"beta2\\\":0.9", KVS_ERR_FORMAT, "twice"},
        {"\\\"beta1\\\":0.9", "\\\"beta1\\\":true", KVS_ERR_FORMAT, "beta1"},
        {"\\\"beta1\\\":0.9", "\\\"beta1\\\":{}", KVS_ERR_FORMAT, "value"},
        {"\\\"wd\\\":0.0", "\\\"wd\\\":-0.5", KVS_ERR_FORMAT, "wd"},
        {"\\\"begin_num_update\\\":0", "\\\"begin_num_update\\\":3", KVS_ERR_FORMAT,
         "not above begin_num_update"},
        {"\"lr_mult\":\"[]\"", "\"lr_mult\":\"[[\\\"w\\\",-1]]\"", KVS_ERR_FORMAT, "lr_mult"},
        {"\"lr_mult\":\"[]\"", "\"lr_mult\":\"[[\\\"w\\\"]]\"", KVS_ERR_FORMAT, "multiplier"},
        {"\"lr_mult\":\"[]\"", "\"lr_mult\":\"[[\\\"w\\\",1,2]]\"", KVS_ERR_FORMAT, "multiplier"},
        {"\"lr_mult\":\"[]\"", "\"lr_mult\":\"{}\"", KVS_ERR_FORMAT, "'['"},
        {"\"names\":\"[]\"", "\"names\":\"[[1,2]]\"", KVS_ERR_FORMAT, "string"},
        {"\"names\":\"[]\"", "\"names\":\"[[1]]\"", KVS_ERR_FORMAT, "name"},
        {"\"schedule\":\"null\"", "\"schedule\":\"{}\"", KVS_ERR_FORMAT, "schedule has"},
        {"\"schedule\":\"null\"",
         "\"schedule\":\"{\\\"name\\\":\\\"nope\\\",\\\"parameters\\\":{},\\\"rate\\\":1,"
         "\\\"n_counted\\\":0,\\\"n_steps\\\":0}\"",
         KVS_ERR_FORMAT, "schedule 'nope'"},
        {"\"schedule\":\"null\"",
         "\"schedule\":\"{\\\"name\\\":\\\"factor\\\",\\\"parameters\\\":{\\\"step\\\":2},"
         "\\\"rate\\\":1,\\\"n_counted\\\":-1,\\\"n_steps\\\":0}\"",
         KVS_ERR_FORMAT, "is never at"},
        {"\"schedule\":\"null\"",
         "\"schedule\":\"{\\\"name\\\":\\\"multifactor\\\",\\\"parameters\\\":{\\\"step\\\":[2]},"
         "\\\"rate\\\":1,\\\"n_counted\\\":0,\\\"n_steps\\\":2}\"",
         KVS_ERR_FORMAT, "is never at"},
        {"\"optimizer\":\"\\\"adam\\\"\"", "\"optimizer\":\"\\\"adma\\\"\"", KVS_ERR_NOT_FOUND,
         "adma"},
        {"\"optimizer\":\"\\\"adam\\\"\"", "\"optimizer\":\"\\\"sgd\\\"\"", KVS_ERR_FORMAT, "sgd"},
        {"\"key_type\":\"\\\"string\\\"\"", "\"key_type\":\"\\\"integer\\\"\"", KVS_ERR_FORMAT,
         "not of the type"},
        {"\"key_type\":\"\\\"string\\\"\"", "\"key_type\":\"\\\"float\\\"\"", KVS_ERR_FORMAT,
         "type of keys"},
        {"\"key_type\":\"\\\"string\\\"\"", "\"key_type\":\"null\"", KVS_ERR_FORMAT,
         "not of the type"},
        {"\\\"b\\\":{\\\"dtype\\\"", "\\\"w\\\":{\\\"dtype\\\"", KVS_ERR_FORMAT,
         "key stands twice"},
        {"\\\"dtype\\\":\\\"float64\\\"", "\\\"dtype\\\":\\\"int32\\\"", KVS_ERR_FORMAT, "dtype"},
        {"\\\"dtype\\\":\\\"float64\\\"", "\\\"dtype\\\":\\\"float32\\\"", KVS_ERR_DTYPE,
         "float32"},
        {"\\\"dtype\\\":\\\"float64\\\"", "\\\"dtip\\\":\\\"float64\\\"", KVS_ERR_FORMAT,
         "each once"},
        {"\\\"shape\\\":[5]", "\\\"shape\\\":[4]", KVS_ERR_SHAPE, "(4,)"},
        {"\\\"shape\\\":[5]", "\\\"shape\\\":[5,1]", KVS_ERR_SHAPE, "(5, 1)"},
        {"\\\"shape\\\":[5]", "\\\"shape\\\":[4611686018427387904,2]", KVS_ERR_FORMAT, "shape"},
        {"\\\"shape\\\":[5]", "\\\"shape\\\":[5],\\\"shape\\\":[5]", KVS_ERR_FORMAT, "each once"},
        {"\"checksums\":", "\"checksum5\":", KVS_ERR_FORMAT, "no checksums"},
        {"\\\"mean/b\\\":", "\\\"mean/c\\\":", KVS_ERR_FORMAT, "checksum"},
    };
    fixture_t f;

    set_up(&f);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_bent(&f, rows[i].old, rows[i].new_text, rows[i].status, rows[i].part);
    }
    tear_down(&f);
}

/* A state under a name that the optimizer has not, and of a key that is not noted. */
static void tensors_of_nobody_are_refused(void)
{
    fixture_t f;
    bytes_t bent, again;

    set_up(&f);
    bent = bytes_bend(&f.saved, "\\\"mean/b\\\":", "\\\"meen/b\\\":");
    again = bytes_bend(&bent, "\"mean/b\":{", "\"meen/b\":{");
    check_refused(&f, &again, KVS_ERR_FORMAT, "tensor 'meen/b' is no state of optimizer 'adam'");
    bytes_release(&bent);
    bytes_release(&again);
    bent = bytes_bend(&f.saved, "\\\"mean/b\\\":", "\\\"mean/c\\\":");
    again = bytes_bend(&bent, "\"mean/b\":{", "\"mean/c\":{");
    check_refused(&f, &again, KVS_ERR_FORMAT, "tensor 'mean/c'");
    bytes_release(&bent);
    bytes_release(&again);
    tear_down(&f);
}

/* ---- Files of something else --------------------------------------------------------------------- */

/* Load f's file into `other`, which stays as it was. */
static void check_other(const fixture_t *f, states_rig_t *other, kvs_status_t want,
                        const char *part)
{
    uint64_t before;

    states_rig_update(other, 1);
    before = states_rig_digest(other);
    KT_FAIL(states_rig_load(other, f->path), want, part);
    KT_HAS(kvs_last_error(), f->path);
    KT_TRUE(states_rig_digest(other) == before);
    states_rig_release(other);
}

static void states_of_another_optimizer_are_refused(void)
{
    fixture_t f;
    states_rig_t other = states_rig(rig_opt("sgd", NULL, 0), 0);

    set_up_with(&f, "adam", 0, 0);
    check_other(&f, &other, KVS_ERR_FORMAT,
                "holds states of optimizer 'adam', but 'sgd' is in force");
    tear_down(&f);
}

static void states_of_keys_that_are_not_here_are_refused(void)
{
    fixture_t f;
    states_rig_t other = states_rig(rig_opt("adam", NULL, 0), 0);

    set_up_with(&f, "adam", 0, 0);
    rig_key_release(&other.keys[other.n_keys - 1]);
    other.n_keys--;
    check_other(&f, &other, KVS_ERR_NOT_FOUND, "key 'empty', which is not here");
    tear_down(&f);
}

static void states_of_the_other_type_of_keys_are_refused(void)
{
    fixture_t f;
    states_rig_t other = states_rig(rig_opt("adam", NULL, 0), 1);

    set_up(&f);
    check_other(&f, &other, KVS_ERR_KEY_TYPE, "states of string keys, but keys are integers here");
    tear_down(&f);
    other = states_rig(rig_opt("adam", NULL, 0), 0);
    set_up_with(&f, "adam", 1, 1);
    check_other(&f, &other, KVS_ERR_KEY_TYPE, "states of integer keys, but keys are strings here");
    tear_down(&f);
}

static void states_with_and_without_multi_precision_do_not_mix(void)
{
    fixture_t f;
    states_rig_t other = states_rig(RIG_OPT("adam", RIG_BOOL("multi_precision", 1)), 0);

    set_up_with(&f, "adam", 0, 0);
    check_other(&f, &other, KVS_ERR_FORMAT, "multi_precision off, but it is on");
    tear_down(&f);
    set_up_with(&f, "adam", 0, 0);
    states_rig_release(&f.rig);
    f.rig = states_rig(RIG_OPT("adam", RIG_BOOL("multi_precision", 1)), 0);
    states_rig_update(&f.rig, 1);
    KT_OK(states_rig_save(&f.rig, f.path, 0));
    other = states_rig(rig_opt("adam", NULL, 0), 0);
    check_other(&f, &other, KVS_ERR_FORMAT, "multi_precision on, but it is off");
    tear_down(&f);
}

/* ---- Saving where it can't be done ---------------------------------------------------------------- */

static void check_no_litter(const char *dir)
{
    char command[800];

    snprintf(command, sizeof(command), "ls '%s' | grep -c '[.]tmp$' >/dev/null", dir);
    KT_TRUE(system(command) != 0);
}

static void a_place_that_can_not_be_written_is_told(void)
{
    fixture_t f;

    set_up(&f);
    KT_FAIL(states_rig_save(&f.rig, "/nonexistent/dir/file", 1), KVS_ERR_IO,
            "/nonexistent/dir/file: cannot be made: No such file");
    KT_FAIL(states_rig_save(&f.rig, "", 1), KVS_ERR_IO, "empty");
    KT_FAIL(states_rig_save(&f.rig, ".", 1), KVS_ERR_IO, "regular file");
    KT_FAIL(states_rig_save(&f.rig, "/dev/full", 1), KVS_ERR_IO, "regular file");
    KT_FAIL(states_rig_save(&f.rig, "/proc/version/x", 1), KVS_ERR_IO, "Not a directory");
    KT_TRUE(states_rig_digest(&f.rig) == f.digest);
    tear_down(&f);
}

/* As a full disk, but for the file's size: at each limit the old file stays. */
static void a_disk_that_is_full_leaves_the_old_file(void)
{
    struct rlimit limit, before;
    fixture_t f;
    bytes_t after;

    set_up(&f);
    signal(SIGXFSZ, SIG_IGN);
    KT_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (size_t n = 0; n < f.saved.n; n += 97) {
        limit = (struct rlimit){n, before.rlim_max};
        KT_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
        KT_FAIL(states_rig_save(&f.rig, f.path, 1), KVS_ERR_IO,
                "cannot be written: File too large");
        KT_HAS(kvs_last_error(), f.path);
    }
    KT_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    after = bytes_read(f.path);
    KT_TRUE(bytes_equal(&after, &f.saved));
    bytes_release(&after);
    *strrchr(f.path, '/') = '\0';
    check_no_litter(f.path);
    tear_down(&f);
}

/* What a process does that saves again and again, with states that tell which. */
static void save_for_ever(int which, const char *path)
{
    states_rig_t rig = states_rig(rig_opt(which ? "adam" : "adamax", NULL, 0), 0);

    states_rig_update(&rig, 1);
    for (;;) {
        if (states_rig_save(&rig, path, 1) != KVS_OK) {
            _exit(1);
        }
    }
}

static pid_t start_saving(int which, const char *path)
{
    pid_t pid = fork();

    if (pid == 0) {
        save_for_ever(which, path);
    }
    return pid;
}

static void stop(pid_t pid)
{
    int how = 0;

    kill(pid, SIGKILL);
    KT_INT(waitpid(pid, &how, 0), pid);
    KT_TRUE(WIFSIGNALED(how)); /* no save had failed */
}

/* Two processes save to one file, and are killed in the middle of it: what is there is always whole,
 * and one of both. */
static void a_file_that_two_processes_save_is_always_whole(void)
{
    fixture_t f;
    int n_of[2] = {0, 0};

    set_up(&f);
    for (int round = 0; round < 8; round++) {
        pid_t savers[2] = {start_saving(0, f.path), start_saving(1, f.path)};

        for (int i = 0; i < 25; i++) {
            KT_OK(states_rig_load(&f.rig, f.path));
            n_of[strcmp(kvs_opt_name(f.rig.opt), "adam") == 0]++;
        }
        stop(savers[0]);
        stop(savers[1]);
        KT_OK(states_rig_load(&f.rig, f.path));
    }
    KT_INT(n_of[0] + n_of[1], 200);
    tear_down(&f);
}

static const kt_test_t tests[] = {
    KT_TEST(a_file_truncated_anywhere_is_refused),
    KT_TEST(a_file_that_goes_on_is_refused),
    KT_TEST(every_flipped_byte_is_noticed),
    KT_TEST(what_is_damaged_is_told),
    KT_TEST(foreign_files_are_refused),
    KT_TEST(a_file_from_the_future_is_refused_by_its_version),
    KT_TEST(a_header_that_would_be_too_long_is_not_read),
    KT_TEST(what_is_no_regular_file_is_refused),
    KT_TEST(tensors_that_make_no_sense_are_refused),
    KT_TEST(notes_that_make_no_sense_are_refused),
    KT_TEST(tensors_of_nobody_are_refused),
    KT_TEST(states_of_another_optimizer_are_refused),
    KT_TEST(states_of_keys_that_are_not_here_are_refused),
    KT_TEST(states_of_the_other_type_of_keys_are_refused),
    KT_TEST(states_with_and_without_multi_precision_do_not_mix),
    KT_TEST(a_place_that_can_not_be_written_is_told),
    KT_TEST(a_disk_that_is_full_leaves_the_old_file),
    KT_TEST(a_file_that_two_processes_save_is_always_whole),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("optimizers.states_bad", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
