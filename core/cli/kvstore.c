/* SPDX-License-Identifier: Apache-2.0 */
/* kvstore.c - the `kvstore` command: a table of commands, and what they share. */
#include "commands.h"
#include "describe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PLUGIN_MEMBERS                                                                             \
    "Members of a plugin:\n"                                                                       \
    "  name, version, summary, package, license, arch, abi   as in its manifest\n"                 \
    "  state             ok, disabled, shadowed, bad-manifest, ...\n"                              \
    "  reason, fix       why it is not ok, and what mends it; else \"\"\n"                         \
    "  manifest, library  absolute paths\n"                                                        \
    "  provides          array of {kind, name, aliases, word, with, priority, capabilities}\n"     \
    "  capabilities      {optimizer, sparse, async, multi_worker, keeps_weights: true or false;\n" \
    "                    gradient_compression, devices, dtypes: arrays of text}\n"                 \
    "  requires          {libraries: array of {name, package, why, found}, devices, core}\n"       \
    "  options           array of {name, type, default, variable, doc}\n"                          \
    "  notes             texts: keys that nothing reads, files that others may change\n"           \
    "Members may be added; none is renamed or removed.\n"

static const command_t commands[] = {
    {"list", "[--json]", "what is installed: a line for each plugin",
     "Shows every plugin found along the search path, in its order, without opening any: name,\n"
     "kinds, state, version, ABI, priority, devices, its manifest, and why it can't be used.\n"
     "\n"
     "  --json   one object: version (of libkvstore), paths (searched, in order), plugins, and\n"
     "           notes (texts on the search as a whole)\n"
     "\n" PLUGIN_MEMBERS,
     cmd_list},
    {"info", "NAME [--json]", "everything about one plugin or backend",
     "NAME is the name of a plugin, or a name, alias or word of something that it provides. Of\n"
     "an optimizer its parameters and states are shown too, of a device provider its devices.\n"
     "A plugin that can be loaded is, in a child process, to say whether it can work here and "
     "what\n"
     "it found on this machine, such as versions of libraries.\n"
     "\n"
     "  --json   one object, the plugin, and machine: null if it isn't loaded, else state and "
     "reason\n"
     "           as of doctor, found (array of {label, text}); for the name of an optimizer also\n"
     "           optimizer: null if it can't be loaded, else name, summary, parameters (name, "
     "type,\n"
     "           default, accepts, doc) and states (name, by_default, from_weight, per_row); of a\n"
     "           device provider also hardware: reason, null if it works, and devices: id, name,\n"
     "           driver, detail, total_bytes, free_bytes, reaches\n"
     "\n" PLUGIN_MEMBERS,
     cmd_info},
    {"doctor", "[--json] [--timeout SECONDS]", "find what is wrong, and what mends it",
     "Shows the environment and the search path, opens every enabled plugin in a child process,\n"
     "which may crash or hang without harm, asks its backends whether they can work here, and\n"
     "checks the settings. Marks: ok; off, for disabled or shadowed; WARN, can't work here or\n"
     "worth a look; FAIL. The exit status is 1 if anything fails: an enabled plugin, a setting, a\n"
     "backend that a setting names, or if nothing can be used.\n"
     "\n"
     "  --timeout   of each plugin, 1 to 3600 seconds; 10 by default\n"
     "  --json      one object: version, secure_execution, environment (name: value or null),\n"
     "              paths (array of {path, exists, plugins: how many}), plugins (as tried: state\n"
     "              may also be crashed or timeout), problems and notes (texts on settings and\n"
     "              the search), ok, failed, unavailable, off (numbers of plugins)\n"
     "\n" PLUGIN_MEMBERS,
     cmd_doctor},
    {"enable", "NAME [--user]", "turn a plugin on again",
     "Removes the mask of plugin NAME, or of the plugin that provides NAME, from\n"
     "/etc/kvstore/plugins.d. The exit status is 1 if something else turns the plugin off.\n"
     "\n"
     "  --user   from $XDG_DATA_HOME/kvstore/plugins.d (~/.local/share/kvstore/plugins.d)\n",
     cmd_enable},
    {"disable", "NAME [--user]", "turn a plugin off",
     "Makes a mask, an empty file NAME.json, in /etc/kvstore/plugins.d: plugins of that name in\n"
     "places that are searched later are off from each process's next create. The exit status is\n"
     "1 if the mask would have no effect. For one process alone set KVSTORE_PLUGINS=-NAME.\n"
     "\n"
     "  --user   in $XDG_DATA_HOME/kvstore/plugins.d (~/.local/share/kvstore/plugins.d), for\n"
     "           this user alone\n",
     cmd_disable},
    {"config", "[--json]", "every setting, its value, and where it came from",
     "Settings come from options of create, else variables KVSTORE_NAME, else the configuration\n"
     "files (/etc/kvstore/kvstore.conf, then $XDG_CONFIG_HOME/kvstore/kvstore.conf, whose entries\n"
     "count more), else their defaults. A line of a file is `name = value`. Shown is what a store\n"
     "created without options would get; the exit status is 1 if create would refuse a value.\n"
     "\n"
     "  --json   one object: settings, an array of {owner, name, type, value, origin, default, "
     "doc,\n"
     "           error}\n",
     cmd_config},
    {"conformance", "NAME [--list] [--json] [--device cpu|cuda] [--only ID]",
     "hold a backend against the contract",
     "Runs the rules that every backend keeps against backend NAME, a line for each rule. The "
     "last\n"
     "line counts them; the exit status is 0 only if all that apply passed.\n"
     "\n"
     "  --list     name the rules, run none\n"
     "  --json     one object: the counts, and for each rule its id, outcome and text\n"
     "  --only     run one rule\n"
     "  --device   only arrays on that device type; default: every one that is available\n",
     cmd_conformance},
    {"run", "[-w N] [-s M] [--backend NAME] [--grace S] [--] COMMAND [ARGUMENT...]",
     "a job of several processes on this host",
     "Starts a scheduler, M servers and N workers, which run COMMAND, each with the environment of "
     "its\n"
     "role (KVSTORE_* and DMLC_*). A store created by NAME, or without a name, then finds the "
     "others.\n"
     "Output comes line by line with the process's name in front; standard input is empty. The\n"
     "job's name is KVSTORE_JOB_ID, or else one of its own.\n"
     "\n"
     "  -w, --workers N   workers (1)\n"
     "  -s, --servers M   servers (1); 0: the first worker's process hosts one; none for a NAME "
     "without\n"
     "                    servers\n"
     "  --backend NAME    the store that servers and scheduler serve, and the workers' default\n"
     "                    (dist_sync)\n"
     "  --grace S         seconds that the others have to end by themselves once one has failed\n"
     "                    (KVSTORE_DEAD_AFTER + 3, else 18); when all workers have ended, 2\n"
     "\n"
     "The exit status is 0 if every process ended with 0, else that of the first that failed (128 "
     "+\n"
     "its number for a signal), which is named. Nothing is left over, also when this is "
     "interrupted.\n",
     cmd_run},
    {"server", "[--backend NAME]", "be a server of a job, until the job is over",
     "For jobs that are started by other means: mpirun, srun, Kubernetes, systemd. What job it is "
     "comes\n"
     "from the environment: KVSTORE_NUM_WORKERS, KVSTORE_NUM_SERVERS, KVSTORE_SCHEDULER, or "
     "DMLC_*.\n"
     "\n"
     "  --backend NAME   the store to serve (KVSTORE_DEFAULT, else dist_sync)\n"
     "\n"
     "The exit status is 0 if all workers left in good order.\n",
     cmd_server},
    {"scheduler", "[--backend NAME] [--address HOST:PORT] [--announce FILE]",
     "be the scheduler of a job, until the job is over",
     "As `kvstore server`; listens on KVSTORE_SCHEDULER or DMLC_PS_ROOT_URI and "
     "DMLC_PS_ROOT_PORT.\n"
     "\n"
     "  --backend NAME         the store whose job it is (KVSTORE_DEFAULT, else dist_sync)\n"
     "  --address HOST:PORT    where to listen instead; port 0: any that is free\n"
     "  --announce FILE        write the address to FILE once it listens\n"
     "\n"
     "The exit status is 0 if all workers left in good order.\n",
     cmd_scheduler},
    {"status", "[HOST:PORT | --job ID]", "what schedulers and servers on this host say of themselves",
     "Asks every scheduler and server of dist and byteps that this user runs on this host, be it\n"
     "in a process of its own or in a worker's. A scheduler names all processes of its job, on\n"
     "whatever host, and says which are gone. A server prints its job and workers, of each store\n"
     "what it holds and whom it waits for, then bytes by path, and its memory. For servers on\n"
     "other hosts, run it there.\n"
     "\n"
     "Nobody is waited for longer than two seconds: who is busy is named.\n"
     "\n"
     "  HOST:PORT  only the job whose scheduler is at this address, as the scheduler prints it\n"
     "  --job ID   only the job of this name (KVSTORE_JOB_ID)\n"
     "\n"
     "The exit status is 1 if nobody has answered.\n",
     cmd_status},
    {"bench", "[WORKLOAD...] [--backend NAME] [--pushpull] [--python] [--json]",
     "measure a backend",
     "Measures workloads on a backend (local), and before W1, W3, W6 and W7 the machine's memory.\n"
     "Compare rows of one run only, as ratios. Arrays are float32; a time is that of a call, the\n"
     "median of samples of at least 100 us, after three calls to warm up.\n"
     "\n"
     "  --pushpull   also with pushpull in place of push and pull: rows ..._pushpull_...\n"
     "  --python     also what a call with 16 bytes costs: in C, from Python with the extension "
     "that\n"
     "               the build makes, and by ctypes alone: rows c_push, python_push, ctypes_push, "
     "...\n"
     "               Needs the Python package; KVSTORE_PYTHON names the interpreter (python3)\n"
     "  --json       a line of JSON a row\n"
     "\n"
     "Workloads and their rows:\n"
     "  W1  one key of 4 KiB, 256 KiB, 4 MiB, 64 MiB: push k arrays, pull into k outs\n"
     "        W1_k2, W1_k4\n"
     "  W2  1,000 keys of 1 KiB: push and pull all, in lists or one by one; k arrays a key\n"
     "        W2_listcall, W2_percall, W2_listcall_k2, W2_percall_k2\n"
     "  W3  the 161 tensors of ResNet-50 (102 MB), two arrays and two outs each: one by one with\n"
     "      events and priorities, then one wait, or in lists; and so with SGD in the store\n"
     "        W3_k2, W3_list_k2, W3_k2_sgdmom, W3_list_k2_sgdmom\n"
     "  W4  two workers and a server on this host (dist_sync unless --backend names another): push "
     "an\n"
     "      array and get the sum, by pushpull; 4 bytes, W1's sizes, and ResNet-50's tensors\n"
     "        W4_latency_s1, W4_pushpull_s1, W4_resnet50_s1\n"
     "  W5  two workers, then four, without servers (horovod unless --backend names another): the "
     "same\n"
     "      by allreduce\n"
     "        W5_latency, W5_allreduce, W5_resnet50\n"
     "  W6  2bit compression, of which local has none (device): push two arrays, 4 MiB and 64 "
     "MiB;\n"
     "      and so with pulls, compressed and not. By itself on one thread unless told otherwise\n"
     "        W6_2bit, W6_device_k2_2bit, W6_device_k2_none\n"
     "  W7  an optimizer in the store: push one array of 25.6 million floats\n"
     "        W7_sgdmom, W7_adam, then W7_NAME of every optimizer, by its default parameters\n"
     "  W8  a fresh process: time to its first push and pull of 4 KiB, resident memory then\n"
     "      (as size_bytes), and growth over the data's size when 25 keys of 4 MB are stored,\n"
     "      and when each was pushed and pulled (as rss_ratio)\n"
     "        W8_startup_first_pushpull, W8_rss_base, W8_rss_100MB_init, W8_rss_100MB_after_k2\n"
     "  The machine: memcpy and triad (a = b + 3c), on one thread and on as many as stores use;\n"
     "  copy_nt and triad_nt write past the caches, rows ..._huge lie on huge pages\n"
     "\n"
     "Members of a row:\n"
     "  peer, backend             \"kvstore\" and the backend's name, or \"machine\"\n"
     "  workload, size_bytes, keys\n"
     "  procs                     workers in W4 and W5, threads in W6, W7 and the machine's rows; "
     "else 1\n"
     "  median_s, min_s, max_s    seconds a call; samples is their number\n"
     "  GBps                      payload / time; in W6 both arrays; in W7 and the machine's "
     "rows,\n"
     "                            memory touched\n"
     "  of_triad                  the least that memory must move for the call / time, as a part\n"
     "                            of the machine's fastest triad of that size\n"
     "What is not known is null.\n"
     "\n"
     "KVSTORE_THREADS=N sets the threads of stores. KVSTORE_BENCH_QUICK=1 makes a short run of\n"
     "small arrays, which shows that it works and measures nothing.\n",
     cmd_bench},
    {"new-plugin", "NAME", "begin a plugin: a project that builds, in the new directory NAME",
     "Writes CMakeLists.txt, the manifest, a C source that is a complete small backend, a test,\n"
     "and a README that says how to go on. NAME is a letter, then at most 31 of a-z, 0-9 and _.\n"
     "Needs what package libkvstore-dev brings.\n",
     cmd_new_plugin},
    {"check", "FILE...", "hold manifests and shared objects against the rules for plugins",
     "Of a shared object: it exports kvs_plugin_entry_v1 and nothing else, needs no symbol of\n"
     "libkvstore, binds all symbols at load, has no run path and no static TLS. Of a manifest: it\n"
     "is valid, has no unknown keys, its library passes the rules above, loads, in a child\n"
     "process, and says the same as the manifest. Prints a line for each file that is right.\n",
     cmd_check},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const command_t *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static void print_overview(FILE *out)
{
    fprintf(out, "usage: kvstore COMMAND [ARGUMENT...]\n"
                 "       kvstore COMMAND --help\n"
                 "       kvstore --version\n"
                 "\n"
                 "commands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "  %-12s  %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(out, "\n"
                 "exit status: 0 done, 1 a problem told on stderr, 2 wrong usage\n");
}

static void print_usage(FILE *out, const command_t *command)
{
    fprintf(out, "usage: kvstore %s %s\n", command->name, command->usage);
}

static void print_help(const command_t *command)
{
    print_usage(stdout, command);
    printf("\n%s", command->help);
}

int cli_usage_error(const char *command, const char *format, ...)
{
    const command_t *found = find_command(command);
    va_list args;

    fprintf(stderr, "kvstore %s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (found != NULL) {
        print_usage(stderr, found);
    }
    return 2;
}

int cli_failed(const char *command)
{
    fflush(stdout); /* so that the error comes behind what was printed before */
    fprintf(stderr, "kvstore %s: %s\n", command, kvs_last_error());
    return 1;
}

int cli_parse_flag(int argc, char **argv, const char *flag, int n_operands,
                   const char **ret_operands, int *ret_flag)
{
    int n = 0, options_end = 0;

    if (flag != NULL) {
        *ret_flag = 0;
    }
    for (int i = 1; i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = 1;
        } else if (!options_end && flag != NULL && strcmp(argv[i], flag) == 0) {
            *ret_flag = 1;
        } else if (!options_end && argv[i][0] == '-') {
            return cli_usage_error(argv[0], "unknown option \"%s\"", argv[i]);
        } else if (n == n_operands) {
            return cli_usage_error(argv[0], "\"%s\" is one argument too many", argv[i]);
        } else {
            ret_operands[n++] = argv[i];
        }
    }
    return n == n_operands ? 0 : cli_usage_error(argv[0], "NAME is missing");
}

int cli_parse(int argc, char **argv, int n_operands, const char **ret_operands, int *ret_json)
{
    return cli_parse_flag(argc, argv, "--json", n_operands, ret_operands, ret_json);
}

static int is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* Whether --help is among the options. */
static int asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (is_help(argv[i])) {
            return 1;
        }
    }
    return 0;
}

/* What the build and the shell's completion ask for: --man, --man=COMMAND, --words. Whether
 * `argument` was one of them. */
static int describe(const char *argument)
{
    const command_t *command =
        strncmp(argument, "--man=", 6) == 0 ? find_command(argument + 6) : NULL;

    if (command != NULL) {
        describe_man_command(command);
    } else if (strcmp(argument, "--man") == 0) {
        describe_man_overview(commands, N_COMMANDS);
    } else if (strcmp(argument, "--words") == 0) {
        describe_words(commands, N_COMMANDS);
    } else {
        return 0;
    }
    return 1;
}

static int run(int argc, char **argv)
{
    const command_t *command;

    if (argc < 2) {
        print_overview(stderr);
        return 2;
    }
    if (is_help(argv[1])) {
        print_overview(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("kvstore %s\n", kvs_version());
        return 0;
    }
    if (describe(argv[1])) {
        return 0;
    }
    command = find_command(argv[1]);
    if (command == NULL) {
        fprintf(stderr, "kvstore: unknown %s \"%s\"\n", argv[1][0] == '-' ? "option" : "command",
                argv[1]);
        print_overview(stderr);
        return 2;
    }
    if (asks_for_help(argc - 1, argv + 1)) {
        print_help(command);
        return 0;
    }
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int status = run(argc, argv);

    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "kvstore: cannot write to standard output: %s\n", strerror(errno));
        return status != 0 ? status : 1;
    }
    return status;
}
