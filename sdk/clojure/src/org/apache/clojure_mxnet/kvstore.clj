;; SPDX-License-Identifier: Apache-2.0
;; kvstore.clj - stores that keep parameters in step, with the functions of MXNet's Clojure package.
;;
;; Keys are strings or integers; every operation takes one key or a vector of keys, and for them one
;; array or a vector of arrays. The same key may stand several times; with a vector of vectors each key
;; has its own. Operations return the store, block until their arrays may be touched again, and throw
;; an ExceptionInfo with :code, :status and :text. Any thread may use a store, also while another closes it.
(ns org.apache.clojure-mxnet.kvstore
  (:refer-clojure :exclude [type])
  (:require [clojure.string :as string]
            [org.apache.clojure-mxnet.libkvstore :as lib]
            [org.apache.clojure-mxnet.ndarray :as ndarray])
  (:import (com.sun.jna CallbackThreadInitializer Function Memory Native Pointer)
           (com.sun.jna.ptr IntByReference PointerByReference)
           (java.lang.ref Cleaner Cleaner$Cleanable Reference)
           (java.nio ByteBuffer)
           (java.util Set)
           (java.util.concurrent ConcurrentHashMap)
           (java.util.concurrent.atomic AtomicLong AtomicReference)
           (org.apache.clojure_mxnet.libkvstore Scratch)
           (org.apache.clojure_mxnet.ndarray NDArray)))

(set! *warn-on-reflection* true)

(gen-interface
 :name org.apache.clojure_mxnet.kvstore.Updater
 :extends [com.sun.jna.Callback]
 :methods [[invoke [com.sun.jna.Pointer com.sun.jna.Pointer com.sun.jna.Pointer com.sun.jna.Pointer] int]])

(lib/defnative
  create* "kvs_store_create"
  close* "kvs_store_close"
  cancel* "kvs_store_cancel"
  init* "kvs_store_init"
  push* "kvs_store_push"
  pull* "kvs_store_pull"
  pushpull* "kvs_store_pushpull"
  broadcast* "kvs_store_broadcast"
  row-sparse-pull* "kvs_store_row_sparse_pull"
  wait-all* "kvs_store_wait_all"
  set-updater* "kvs_store_set_updater"
  set-optimizer* "kvs_store_set_optimizer"
  set-optimizer-attr* "kvs_store_set_optimizer_attr"
  set-gradient-compression* "kvs_store_set_gradient_compression"
  save-optimizer-states* "kvs_store_save_optimizer_states"
  load-optimizer-states* "kvs_store_load_optimizer_states"
  type* "kvs_store_type"
  rank* "kvs_store_rank"
  num-workers* "kvs_store_num_workers"
  local-rank* "kvs_store_local_rank"
  is-capable* "kvs_store_is_capable"
  barrier* "kvs_store_barrier"
  send-command-to-servers* "kvs_store_send_command_to_servers"
  num-dead-nodes* "kvs_store_num_dead_nodes"
  is-recovery* "kvs_store_is_recovery"
  run-server* "kvs_store_run_server")

;; ---- A store and its life ------------------------------------------------------------------------

;; What outlives the KVStore object, whose Cleaner closes it: users counts the calls that are in the
;; library now, and is far below zero once the store is closed. updaters, an atom, keeps alive every
;; callback that the library was given; thrown is what one threw last.
(deftype State [^long handle ^AtomicLong users updaters ^AtomicReference thrown])

(deftype KVStore [^State state ^AtomicReference cleanable])

(def ^:private ^:const closed Long/MIN_VALUE)
(def ^:private ^ThreadLocal in-updater (ThreadLocal.))
(def ^:private ^Set open-states (ConcurrentHashMap/newKeySet))

(defn- leave [^State state]
  (when (= closed (.decrementAndGet ^AtomicLong (.users state)))
    (locking state
      (.notifyAll state))))

(defn- enter
  "The store's handle, until leave."
  ^long [^State state]
  (when (neg? (.incrementAndGet ^AtomicLong (.users state)))
    (leave state)
    (lib/fail "KVS_ERR_STATE" "this store is closed"))
  (.handle state))

(def ^:private ^:const patience-ms 10000)

(defn- await-calls
  "Waits until no call is in the library, which those that were cancelled leave soon; gives up after
  some time, as one may run an updater without end. Whether there is none."
  [^State state]
  (let [^AtomicLong users (.users state)
        end (+ (System/nanoTime) (* patience-ms 1000000))]
    (locking state
      (loop []
        (let [left-ms (quot (- end (System/nanoTime)) 1000000)]
          (cond
            (= closed (.get users)) true
            (pos? left-ms) (do (.wait state left-ms) (recur))
            :else false))))))

(defn- close-state
  "Closes once: calls of other threads that still wait in the library are woken first."
  [^State state]
  (let [^AtomicLong users (.users state)
        before (.getAndUpdate users (reify java.util.function.LongUnaryOperator
                                      (applyAsLong [_ n] (if (neg? n) n (+ n closed)))))]
    (when-not (neg? before)
      (.remove open-states state)
      (when (pos? before)
        (.invokeVoid ^Function @cancel* (object-array [(.handle state)]))
        (when-not (await-calls state)
          (lib/fail "KVS_ERR_TIMEOUT" "close: another thread's call has not ended within "
                    (quot patience-ms 1000) " s; the store is left open")))
      (lib/check (lib/invoke-int close* (.handle state))))))

(defn- close-quietly
  "Closes a store that nobody has any more; an error is logged, as nobody is left who could be told."
  ^Runnable [state]
  (fn []
    (try
      (close-state state)
      (catch Throwable e
        (when-not (= "KVS_ERR_CANCELLED" (:status (ex-data e)))
          (binding [*out* *err*]
            (println "kvstore warn clojure: a store was closed with an error:" (ex-message e))))))))

(def ^:private ^Cleaner cleaner (Cleaner/create)) ; its own: closing may wait for other processes

(def ^:private close-at-exit
  (delay
   (.addShutdownHook (Runtime/getRuntime)
                     (Thread. ^Runnable (fn [] (run! #(.run ^Runnable (close-quietly %)) open-states))))))

(defn- store-of ^KVStore [handle]
  (let [state (State. handle (AtomicLong.) (atom []) (AtomicReference.))
        kvstore (KVStore. state (AtomicReference.))]
    (.add open-states state)
    @close-at-exit
    (.set ^AtomicReference (.cleanable kvstore) (.register cleaner kvstore (close-quietly state)))
    kvstore))

(defn- state-of ^State [kvstore]
  (if (instance? KVStore kvstore)
    (.state ^KVStore kvstore)
    (lib/fail "KVS_ERR_ARGUMENT" "a store is needed, not " (pr-str kvstore))))

(defn- check-operation
  "Throws unless `code` is that of success; what an updater threw is the cause."
  [^State state ^long code]
  (when-not (zero? code)
    (throw (lib/error code (when (= code (lib/codes "KVS_ERR_CALLBACK"))
                             (.getAndSet ^AtomicReference (.thrown state) nil))))))

(defmacro ^:private with-handle
  "Evaluates the body, which gives a status, with the handle of a store that isn't closed meanwhile.
  Gives the store."
  [[handle kvstore] & body]
  `(let [kvstore# ~kvstore
         state# (state-of kvstore#)
         ~handle (enter state#)]
     (try
       (check-operation state# (do ~@body))
       (finally
         (leave state#)
         (Reference/reachabilityFence kvstore#)))
     kvstore#))

(defn close
  "Waits for the store's work and frees it; throws the first error that was not told yet. Calls of other
  threads that still wait are cancelled. The second time it does nothing."
  [kvstore]
  (when (.get in-updater)
    (lib/fail "KVS_ERR_STATE" "close: an updater can't close a store"))
  (close-state (state-of kvstore))
  (.clean ^Cleaner$Cleanable (.get ^AtomicReference (.cleanable ^KVStore kvstore)))
  nil)

(defn dispose
  "As close."
  [kvstore]
  (close kvstore))

;; Calls that aren't made often build their structures of JNA's Memory. `keep`, an atom, has what is
;; to live until the call is over.

(defn- memory ^Memory [keep n-bytes]
  (let [memory (doto (Memory. (max 8 (long n-bytes))) .clear)]
    (swap! keep conj memory)
    memory))

(defn- c-text ^Memory [keep what text]
  (let [bytes (lib/utf8 what text)]
    (doto (memory keep (inc (alength bytes)))
      (.write 0 bytes 0 (alength bytes)))))

(defn- c-table
  "Memory of one structure of `n-bytes` for each item, filled by (put memory offset item)."
  ^Memory [keep n-bytes items put]
  (let [table (memory keep (* (long n-bytes) (count items)))]
    (dorun (map-indexed (fn [i item] (put table (* (long n-bytes) (long i)) item)) items))
    table))

(defn- put-option [keep ^Memory table ^long at [k v]]
  (.setPointer table at (c-text keep "the name of an option" k))
  (.setPointer table (+ at 8) (c-text keep "the value of an option" v)))

(defn- snake
  "A keyword, symbol or text as the library spells names."
  [x]
  (string/replace (if (instance? clojure.lang.Named x) (name x) (str x)) "-" "_"))

(defn- served?
  "Whether this process has another role than worker and the store served it until it was over."
  [kvstore]
  (let [role (or (System/getenv "KVSTORE_ROLE") (System/getenv "DMLC_ROLE"))]
    (when (#{"server" "scheduler"} (some-> role string/lower-case))
      (let [code (let [state (state-of kvstore)]
                   (try
                     (lib/invoke-int run-server* (enter state))
                     (finally (leave state))))]
        (when-not (= code (lib/codes "KVS_ERR_NOT_IMPLEMENTED"))
          (lib/check code)
          true)))))

(defn create
  "The store of that name; if it isn't given, the configured one, else \"local\". Options are the backend's, as keywords or texts
  (`kvstore info NAME` lists them): {:timeout 30}. In a process whose role is server or scheduler it
  serves until the job is over and then ends the process, unless {:serve false}: run-server serves then."
  ([] (create nil))
  ([name] (create name {}))
  ([name options]
   (let [serve (get options :serve true)
         options (dissoc options :serve)
         keep (atom [])
         texts (map (fn [[k v]] [(snake k) (if (keyword? v) (clojure.core/name v) (str v))]) options)
         handle (PointerByReference.)]
     (lib/check (lib/invoke-int create* (when name (lib/text-argument "the name of a store" name))
                                (c-table keep 16 texts (partial put-option keep))
                                (long (count options)) handle))
     (Reference/reachabilityFence keep)
     (let [kvstore (store-of (Pointer/nativeValue (.getValue handle)))]
       (when (and serve (served? kvstore))
         (close kvstore)
         (System/exit 0))
       kvstore))))

(defn run-server
  "Serves, in a process whose role is server or scheduler, until the job is over."
  [kvstore]
  (with-handle [handle kvstore]
    (lib/invoke-int run-server* handle)))

;; ---- Calls with arrays ---------------------------------------------------------------------------

;; Offsets in kvs_key_t, kvs_arrays_t and kvs_call_t of kvstore.h.
(def ^:private ^:const key-bytes 16)
(def ^:private ^:const arrays-bytes 32)
(def ^:private ^:const call-bytes 24)
(def ^:private ^:const keep-sparse 1)

;; The arrays of one argument, flat: counts is nil, or says how many belong to each key.
(deftype Group [^objects arrays ^longs counts])

(defn- group-of
  "The Group of what a caller gave for its keys; nil for nil."
  ^Group [values]
  (cond
    (nil? values) nil
    (not (sequential? values)) (Group. (doto (object-array 1) (aset 0 values)) nil)
    (some sequential? values) (let [lists (map #(if (sequential? %) % [%]) values)]
                                (Group. (object-array (apply concat lists))
                                        (long-array (map count lists))))
    :else (Group. (to-array values) nil)))

(defn- group-bytes ^long [^Group group]
  (if (nil? group)
    0
    (+ arrays-bytes
       (* ndarray/tensor-bytes (alength ^objects (.arrays group)))
       (if (.counts group) (* 8 (alength ^longs (.counts group))) 0))))

(defn- key-text
  "The bytes of a text key, nil for an integer."
  ^bytes [k]
  (cond
    (string? k) (lib/utf8 "a key" k)
    (int? k) nil
    :else (lib/fail "KVS_ERR_ARGUMENT" "a key is a string or an integer of 64 bits, not " (pr-str k))))

(defn- put-text
  "Puts bytes and their end at `at`; the place after them, aligned."
  ^long [^ByteBuffer room ^long at ^bytes text]
  (let [n (alength text)]
    (dotimes [i n]
      (.put room (+ at i) (aget text i)))
    (.put room (+ at n) (byte 0))
    (bit-and -8 (+ at n 8))))

(defn- put-keys
  "Puts keys at 0 and their texts behind them; the place after those."
  ^long [^ByteBuffer room ^long place ^objects ks ^objects texts]
  (let [n (alength ks)]
    (loop [i 0
           at (* key-bytes n)]
      (if (< i n)
        (if-let [text (aget texts i)]
          (do
            (.putLong room (* key-bytes i) (+ place at))
            (.putLong room (+ 8 (* key-bytes i)) 0)
            (recur (inc i) (put-text room at text)))
          (do
            (.putLong room (* key-bytes i) 0)
            (.putLong room (+ 8 (* key-bytes i)) (long (aget ks i)))
            (recur (inc i) at)))
        at))))

(defn- put-tensors
  "Puts copies of the arrays' tensors at `at`."
  [^ByteBuffer room ^long at ^objects arrays]
  (dotimes [i (alength arrays)]
    (let [from (ndarray/tensor (aget arrays i))
          to (+ at (* ndarray/tensor-bytes i))]
      (loop [j 0]
        (when (< j ndarray/tensor-bytes)
          (.putLong room (+ to j) (.getLong from j))
          (recur (+ j 8)))))))

(defn- put-group
  "Puts a kvs_arrays_t at `at`, with what it points to; the place after it."
  ^long [^ByteBuffer room ^long place ^long at ^Group group]
  (if (nil? group)
    at
    (let [^objects arrays (.arrays group)
          ^longs counts (.counts group)
          tensors (+ at arrays-bytes)
          after (+ tensors (* ndarray/tensor-bytes (alength arrays)))]
      (put-tensors room tensors arrays)
      (.putLong room at (+ place tensors))
      (.putLong room (+ at 8) (alength arrays))
      (.putLong room (+ at 16) (if counts (+ place after) 0))
      (.putLong room (+ at 24) (if counts (alength counts) 0))
      (if counts
        (do
          (dotimes [i (alength counts)]
            (.putLong room (+ after (* 8 i)) (aget counts i)))
          (+ after (* 8 (alength counts))))
        after))))

(defn- put-call
  "Puts a kvs_call_t at `at`."
  [^ByteBuffer room ^long at ^long priority ^long flags]
  (doto room
    (.putInt at call-bytes)
    (.putInt (+ at 4) (int priority))
    (.putInt (+ at 8) (int flags))
    (.putInt (+ at 12) 0)
    (.putLong (+ at 16) 0)))

(defn- texts-of
  "The bytes of each text key."
  ^objects [^objects ks]
  (let [texts (object-array (alength ks))]
    (dotimes [i (alength ks)]
      (aset texts i (key-text (aget ks i))))
    texts))

(defn- texts-bytes ^long [^objects texts]
  (loop [i 0
         n 0]
    (if (< i (alength texts))
      (recur (inc i) (if-let [^bytes text (aget texts i)] (+ n 8 (alength text)) n))
      n)))

(defn- operate
  "Calls `f`, a C function of store, keys, one or two lists of arrays, and options. `two` says which;
  the second list may be nil."
  [kvstore f ks first-arrays two second-arrays priority flags]
  (let [ks (if (sequential? ks) (to-array ks) (doto (object-array 1) (aset 0 ks)))
        n (long (alength ^objects ks))
        texts (texts-of ks)
        a (group-of first-arrays)
        b (group-of second-arrays)
        ^Scratch room (lib/borrow-scratch (+ call-bytes (* key-bytes n) (texts-bytes texts) (group-bytes a)
                                    (group-bytes b)))
        place (.place room)
        buffer (.buffer room)]
    (try
      (let [at-a (put-keys buffer place ks texts)
            at-b (put-group buffer place at-a a)
            at-call (put-group buffer place at-b b)
            b-place (if b (+ place at-b) 0)
            plain (and (zero? (long priority)) (zero? (long flags)))
            call-place (if plain 0 (+ place at-call))]
        (when-not plain
          (put-call buffer at-call priority flags))
        (with-handle [handle kvstore]
          (if two
            (lib/invoke-int f handle place n (+ place at-a) b-place call-place)
            (lib/invoke-int f handle place n (+ place at-a) call-place))))
      (finally
        (lib/return-scratch room)
        (Reference/reachabilityFence a)
        (Reference/reachabilityFence b)))))

(defn init
  "Creates each key with a copy of its value. With several workers the value of rank 0 counts."
  [kvstore ks vs]
  (operate kvstore init* ks vs false nil 0 0))

(defn push
  "The values given for a key are summed; the sum replaces the stored value, or goes to the updater or
  optimizer. Among operations that wait for a thread, those of larger priority come first."
  ([kvstore ks vs] (push kvstore ks vs 0))
  ([kvstore ks vs priority] (operate kvstore push* ks vs false nil priority 0)))

(defn pull
  "Writes the stored value into every out. The rows of a row-sparse key come into a row-sparse out only
  with {:ignore-sparse false} and room for them (ndarray/row-sparse gives it); see row-sparse-pull."
  ([kvstore ks outs] (pull kvstore ks outs 0))
  ([kvstore ks outs priority] (pull kvstore ks outs priority {}))
  ([kvstore ks outs priority {:keys [ignore-sparse] :or {ignore-sparse true}}]
   (operate kvstore pull* ks outs false nil priority (if ignore-sparse 0 keep-sparse))))

(defn pushpull
  "Push, then pull, as one operation. Without outs the result is written back into the values."
  ([kvstore ks vs] (pushpull kvstore ks vs nil))
  ([kvstore ks vs outs] (pushpull kvstore ks vs outs 0))
  ([kvstore ks vs outs priority] (operate kvstore pushpull* ks vs true outs priority 0)))

(defn broadcast
  "Rank 0's value into every out of every rank."
  ([kvstore ks vs outs] (broadcast kvstore ks vs outs 0))
  ([kvstore ks vs outs priority] (operate kvstore broadcast* ks vs true outs priority 0)))

(defn- reserve-rows
  "Gives row-sparse outs room for as many rows as can come."
  [outs ids]
  (let [^Group outs (group-of outs)
        n (transduce (map ndarray/size) max 0 (.arrays ^Group (group-of ids)))]
    (doseq [out (.arrays outs)]
      (ndarray/tensor out)
      (when (ndarray/sparse? out)
        (ndarray/reserve-rows! out (min (long n) (long (first (ndarray/shape out)))))))))

(defn row-sparse-pull
  "The rows named by `row-ids` of row-sparse keys into row-sparse outs, which get room for them; rows
  that the key lacks are zero. Ids are an integer array, in any order, repeats allowed: one for all outs
  of a key, or one for each out."
  ([kvstore ks outs row-ids] (row-sparse-pull kvstore ks outs row-ids 0))
  ([kvstore ks outs row-ids priority]
   (reserve-rows outs row-ids)
   (operate kvstore row-sparse-pull* ks outs true row-ids priority 0)))

(defn wait-all
  "Waits for everything issued on the store; throws the first error that was not told yet."
  [kvstore]
  (with-handle [handle kvstore]
    (lib/invoke-int wait-all* handle -1)))

;; ---- Updaters, optimizers, compression -----------------------------------------------------------

(defn- key-of [^Pointer key]
  (if-let [text (.getPointer key 0)]
    (.getString text 0 "UTF-8")
    (.getLong key 8)))

(defn- run-updater
  "Calls an updater for C; gives a status. What it throws becomes its text and is kept for the caller."
  [f ^AtomicReference thrown key value stored]
  (let [value (ndarray/view value true)
        stored (ndarray/view stored false)]
    (.set in-updater true)
    (try
      (f (key-of key) value stored)
      0
      (catch Throwable e
        (.set thrown e)
        (lib/set-error (lib/codes "KVS_ERR_CALLBACK") (str e)))
      (finally
        (.remove in-updater)
        (ndarray/dispose value)
        (ndarray/dispose stored)))))

(defn- callback ^org.apache.clojure_mxnet.kvstore.Updater [f thrown]
  (doto (reify org.apache.clojure_mxnet.kvstore.Updater
          (invoke [_ key value stored _]
            (int (try
                   (run-updater f thrown key value stored)
                   (catch Throwable e
                     (lib/set-error (lib/codes "KVS_ERR_CALLBACK") (str e)))))))
    (Native/setCallbackThreadInitializer (CallbackThreadInitializer. true false "kvstore updater"))))

(defn set-updater
  "(f key value stored) changes `stored` by the sum of a push, in place (ndarray/+=, set, …); the two
  arrays can be used during the call only. nil: pushes replace again. What it throws is the cause of
  the exception of that push."
  [kvstore f]
  (let [^State state (state-of kvstore)
        updater (when f (callback f (.thrown state)))]
    (when updater
      (swap! (.updaters state) conj updater))
    (with-handle [handle kvstore]
      (lib/invoke-int set-updater* handle updater nil))
    kvstore))

;; Offsets in kvs_param_t and kvs_optimizer_spec_t of kvstore.h.
(def ^:private ^:const param-bytes 32)
(def ^:private ^:const spec-bytes 104)

(defn- put-param-value
  "Puts a parameter's type and value."
  [keep ^Memory table at value]
  (let [at (long at)
        as (fn [type] (.setInt table (+ at 8) (int type)))]
    (cond
      (nil? value) (as 0)
      (boolean? value) (do (as 1) (.setLong table (+ at 16) (if value 1 0)))
      (int? value) (do (as 2) (.setLong table (+ at 16) (long value)))
      (number? value) (do (as 3) (.setDouble table (+ at 16) (double value)))
      (or (string? value) (keyword? value))
      (do (as 4) (.setPointer table (+ at 16) (c-text keep "a parameter" (name value))))
      (and (sequential? value) (every? int? value))
      (let [integers (memory keep (* 8 (count value)))]
        (as 5)
        (.write integers 0 (long-array value) 0 (count value))
        (.setPointer table (+ at 16) integers)
        (.setLong table (+ at 24) (count value)))
      :else
      (lib/fail "KVS_ERR_ARGUMENT" "a parameter is nil, a boolean, a number, a text, or a vector of "
                "integers, not " (pr-str value)))))

(defn- put-param [keep ^Memory table at [k v]]
  (.setPointer table (long at) (c-text keep "the name of a parameter" (snake k)))
  (put-param-value keep table at v))

(defn- put-key [keep ^Memory table at k]
  (if (int? k)
    (.setLong table (+ (long at) 8) (long k))
    (.setPointer table (long at) (c-text keep "a key" k))))

(defn- put-multiplier [keep ^Memory table at [k x]]
  (put-key keep table at k)
  (.setDouble table (+ (long at) 16) (double x)))

(defn- put-name [keep ^Memory table at [k name]]
  (put-key keep table at k)
  (.setPointer table (+ (long at) 16) (c-text keep "the name of a key" name)))

(defn- put-table
  "Puts address and length of a table of `items` at `at`."
  [keep ^Memory spec at n-bytes items put]
  (.setPointer spec (long at) (c-table keep n-bytes items (partial put keep)))
  (.setLong spec (+ (long at) 8) (count items)))

(defn- optimizer-spec
  "A kvs_optimizer_spec_t."
  ^Memory [keep {:keys [name params lr-mult wd-mult names schedule]}]
  (let [spec (memory keep spec-bytes)
        [schedule-name schedule-params] schedule]
    (.setInt spec 0 (int spec-bytes))
    (.setPointer spec 8 (c-text keep "the name of an optimizer" name))
    (put-table keep spec 16 param-bytes params put-param)
    (put-table keep spec 32 24 lr-mult put-multiplier)
    (put-table keep spec 48 24 wd-mult put-multiplier)
    (put-table keep spec 64 24 names put-name)
    (when schedule
      (.setPointer spec 80 (c-text keep "the name of a schedule" schedule-name))
      (put-table keep spec 88 param-bytes schedule-params put-param))
    spec))

(defn set-optimizer
  "Updates in the store (of a distributed one, on the servers) for the pushes issued after it: by name
  and parameters, {:learning-rate 0.1}, or by an optimizer of the namespace optimizer. Options are
  those of optimizer/create."
  ([kvstore optimizer]
   (if (map? optimizer)
     (set-optimizer kvstore (:name optimizer) (:params optimizer) optimizer)
     (set-optimizer kvstore optimizer {})))
  ([kvstore name params] (set-optimizer kvstore name params {}))
  ([kvstore name params options]
   (let [keep (atom [])
         spec (optimizer-spec keep (assoc options :name name :params params))]
     (with-handle [handle kvstore]
       (let [code (lib/invoke-int set-optimizer* handle spec)]
         (Reference/reachabilityFence keep)
         code)))))

(defn- call-with-params
  "Calls f of handle and a table of parameters; with `counted` also their number."
  [kvstore f params counted]
  (let [keep (atom [])
        table (c-table keep param-bytes params (partial put-param keep))]
    (with-handle [handle kvstore]
      (let [code (if counted
                   (lib/invoke-int f handle table (long (count params)))
                   (lib/invoke-int f handle table))]
        (Reference/reachabilityFence keep)
        code))))

(defn set-optimizer-attr
  "Changes a parameter of the optimizer, :learning-rate, …, for the pushes issued after it."
  [kvstore name value]
  (call-with-params kvstore set-optimizer-attr* {name value} false))

(defn set-gradient-compression
  "{:type \"2bit\" :threshold 0.5}, for the pushes issued after it."
  [kvstore params]
  (call-with-params kvstore set-gradient-compression* params true))

(defn save-optimizer-states
  "Writes every state of the optimizer to a file; with `dump-optimizer` also its parameters."
  ([kvstore fname] (save-optimizer-states kvstore fname false))
  ([kvstore fname dump-optimizer]
   (with-handle [handle kvstore]
     (lib/invoke-int save-optimizer-states* handle (lib/text-argument "a file name" fname)
                     (int (if dump-optimizer 1 0))))))

(defn load-optimizer-states
  "Reads what save-optimizer-states wrote."
  [kvstore fname]
  (with-handle [handle kvstore]
    (lib/invoke-int load-optimizer-states* handle (lib/text-argument "a file name" fname))))

;; ---- What a store is; several processes ----------------------------------------------------------

(defn type
  "The name that it was created by, lower-cased."
  [kvstore]
  (let [text (volatile! nil)]
    (with-handle [handle kvstore]
      (vreset! text (.getString (.invokePointer ^Function @type* (object-array [handle])) 0 "UTF-8"))
      0)
    @text))

(defmacro ^:private asking
  "The int that a C function writes through its last parameter."
  [kvstore f & arguments]
  `(let [answer# (IntByReference.)]
     (with-handle [handle# ~kvstore]
       (lib/invoke-int ~f handle# ~@arguments answer#))
     (.getValue answer#)))

(defn rank
  "The number of this worker, from 0."
  [kvstore]
  (asking kvstore rank*))

(defn num-workers [kvstore]
  (asking kvstore num-workers*))

(defn local-rank
  "The number of this worker among those of its host."
  [kvstore]
  (asking kvstore local-rank*))

(defn capable?
  "Whether it has \"optimizer\", \"sparse\", \"gradient_compression\" or \"async\"; a keyword will do."
  [kvstore capability]
  (pos? (asking kvstore is-capable* (lib/text-argument "a capability" (snake capability)))))

(defn barrier
  "Returns when all workers have called it."
  [kvstore]
  (with-handle [handle kvstore]
    (lib/invoke-int barrier* handle)))

(defn send-command-to-servers
  "Has run on every server when it returns. `head` is an integer, `body` a text."
  [kvstore head body]
  (let [keep (atom [])
        text (c-text keep "the body of a command" body)]
    (with-handle [handle kvstore]
      (let [code (lib/invoke-int send-command-to-servers* handle (int head) text
                                 (long (alength (lib/utf8 "the body of a command" body))))]
        (Reference/reachabilityFence keep)
        code))))

(defn num-dead-nodes
  "How many processes of a role (\"worker\", \"server\", \"scheduler\") were not heard of for so long."
  ([kvstore] (num-dead-nodes kvstore "worker"))
  ([kvstore role] (num-dead-nodes kvstore role 60000))
  ([kvstore role timeout-ms]
   (asking kvstore num-dead-nodes* (lib/text-argument "a role" role) (long timeout-ms))))

(defn recovery?
  "Whether this process rejoined a running job."
  [kvstore]
  (pos? (asking kvstore is-recovery*)))

(defmethod print-method KVStore [kvstore ^java.io.Writer writer]
  (.write writer (str "#<KVStore " (try (type kvstore) (catch Exception _ "closed")) ">")))
