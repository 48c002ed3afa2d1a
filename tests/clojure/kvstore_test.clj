;; SPDX-License-Identifier: Apache-2.0
;; kvstore_test.clj - the Clojure binding: operations, errors, updaters, memory and threads.
(ns kvstore-test
  (:require [clojure.string :as string]
            [clojure.test :refer [deftest is run-tests]]
            [org.apache.clojure-mxnet.context :as context]
            [org.apache.clojure-mxnet.kvstore :as kvstore]
            [org.apache.clojure-mxnet.libkvstore :as lib]
            [org.apache.clojure-mxnet.ndarray :as ndarray]
            [org.apache.clojure-mxnet.optimizer :as optimizer]))

(def script *file*)

(defmacro failure
  "What the body throws: [status text]."
  [& body]
  `(try
     (do ~@body)
     :nothing-thrown
     (catch clojure.lang.ExceptionInfo e#
       [(:status (ex-data e#)) (ex-message e#)])))

(defmacro fails
  "The body throws that status, with a text that has each of the words."
  [status words & body]
  `(let [[status# text# :as thrown#] (failure ~@body)]
     (is (= ~status status#) thrown#)
     (doseq [word# ~words]
       (is (string/includes? (str text#) word#)))))

(defmacro with-store [[kv & create] & body]
  `(let [~kv (kvstore/create ~@create)]
     (try
       ~@body
       (finally (kvstore/close ~kv)))))

(defn pulled
  "The value of a key, by a new array."
  [kv k shape]
  (let [a (ndarray/zeros shape)]
    (kvstore/pull kv k a)
    (ndarray/->vec a)))

(deftest operations-return-the-store
  (with-store [kv]
    (let [a (ndarray/ones [2])]
      (is (identical? kv (kvstore/init kv "a" a)))
      (is (identical? kv (kvstore/push kv "a" a 3)))
      (is (identical? kv (kvstore/pull kv "a" a 3)))
      (is (identical? kv (kvstore/wait-all kv)))
      (is (= "local" (kvstore/type kv)))
      (is (= [0 1 0] [(kvstore/rank kv) (kvstore/num-workers kv) (kvstore/local-rank kv)]))
      (is (= 0 (kvstore/num-dead-nodes kv)))
      (is (not (kvstore/recovery? kv)))
      (is (kvstore/capable? kv :optimizer))
      (is (identical? kv (kvstore/barrier kv)))
      (is (identical? kv (kvstore/send-command-to-servers kv 7 "text"))))))

(deftest integer-keys-and-lists-of-lists
  (with-store [kv "local"]
    (kvstore/init kv [3 -4] [(ndarray/zeros [2]) (ndarray/zeros [3])])
    (kvstore/push kv [3 -4] [[(ndarray/array [1 2] [2]) (ndarray/array [10 20] [2])]
                             (ndarray/array [5 6 7] [3])])
    (let [outs [[(ndarray/zeros [2])] [(ndarray/zeros [3]) (ndarray/zeros [3])]]]
      (kvstore/pull kv [3 -4] outs)
      (is (= [[11.0 22.0] [5.0 6.0 7.0] [5.0 6.0 7.0]] (map ndarray/->vec (flatten outs)))))
    (kvstore/push kv 3 [(ndarray/array [1 1] [2]) (ndarray/array [2 2] [2])])
    (is (= [3.0 3.0] (pulled kv 3 [2])))))

(deftest long-lists-and-text-of-any-kind
  (with-store [kv]
    (let [ks (mapv #(str "größe-" % "-λ") (range 300))
          arrays (mapv #(ndarray/full [1] %) (range 300))
          outs (mapv (fn [_] (ndarray/zeros [1])) ks)]
      (kvstore/init kv ks arrays)
      (kvstore/pull kv ks outs)
      (is (= (map (comp vector double) (range 300)) (map ndarray/->vec outs)))
      (fails "KVS_ERR_NOT_FOUND" ["größe-λ"] (kvstore/pull kv "größe-λ" (first outs))))))

(deftest pushpull-and-broadcast
  (with-store [kv]
    (let [a (ndarray/array [1 2] [2])
          b (ndarray/array [3 4] [2])
          out (ndarray/zeros [2])]
      (kvstore/broadcast kv "k" a [out b])
      (is (= [1.0 2.0] (ndarray/->vec out) (ndarray/->vec b)))
      (kvstore/pushpull kv "k" [a b] out)
      (is (= [2.0 4.0] (ndarray/->vec out)))
      (kvstore/pushpull kv "k" [a out])
      (is (= [3.0 6.0] (ndarray/->vec a) (ndarray/->vec out))))))

(deftest dtypes-and-arithmetic
  (with-store [kv]
    (doseq [[i dtype] (map-indexed vector ["float32" "float64" "int32" "int64" "int8" "uint8"])]
      (let [a (ndarray/array [1 2 100] [3] {:dtype dtype})
            out (ndarray/zeros [3] {:dtype dtype})]
        (kvstore/init kv i a)
        (kvstore/push kv i [a a])
        (kvstore/pull kv i out)
        (is (= [dtype (if (= dtype "int8") -56 200)]
               [(ndarray/dtype out) (long (last (ndarray/->vec out)))]))))
    (fails "KVS_ERR_DTYPE" ["complex"] (ndarray/zeros [1] {:dtype "complex"})))
  (let [a (ndarray/array [1 2 3 4] [2 2])
        b (ndarray/array [10 20 30 40] [2 2])]
    (is (= [[11.0 22.0] [33.0 44.0]] (ndarray/->nd-vec (ndarray/+ a b))))
    (is (= [9.0 18.0 27.0 36.0] (ndarray/->vec (ndarray/- b a))))
    (is (= [0.5 1.0 1.5 2.0] (ndarray/->vec (ndarray// a 2))))
    (is (= [10.0 40.0 90.0 160.0] (ndarray/->vec (ndarray/* a b))))
    (is (= [1.0 2.0 3.0 4.0] (ndarray/->vec a)))
    (is (= [3.0 6.0 9.0 12.0] (ndarray/->vec (ndarray/*= (ndarray/+= (ndarray/copy-to a (ndarray/zeros [2 2])) 0) 3))))
    (is (= [1.0 2.5] (ndarray/->vec (ndarray/array (float-array [1 2.5]) [2]))))
    (is (= [1.0 2.0 3.0 4.0] (seq (ndarray/to-array a))))
    (is (= [2 2] (ndarray/shape-vec a)))
    (is (= (context/cpu 2) (ndarray/context (ndarray/as-in-context a (context/cpu 2)))))
    (is (= 7.0 (ndarray/->nd-vec (ndarray/full [] 7))))
    (fails "KVS_ERR_SHAPE" ["[2 2]" "[4]"] (ndarray/+ a (ndarray/ones [4])))
    (fails "KVS_ERR_DTYPE" ["float32" "int32"] (ndarray/+ a (ndarray/ones [2 2] {:dtype "int32"})))
    (fails "KVS_ERR_SHAPE" ["3 numbers" "[2 2]"] (ndarray/set a [1 2 3])))
  (is (= [(float 1e8) (float 3e38)] (map #(nth (ndarray/->vec (ndarray/+ (ndarray/full [100000] %) 1)) 99999)
                                         [1e8 3e38]))))

(deftest errors-have-code-and-text-and-change-nothing
  (with-store [kv]
    (let [a (ndarray/ones [2 3])]
      (kvstore/init kv "w" a)
      (let [data (try (kvstore/init kv "w" a) (catch clojure.lang.ExceptionInfo e (ex-data e)))]
        (is (= -4 (:code data)))
        (is (= "KVS_ERR_EXISTS" (:status data)))
        (is (string/includes? (:text data) "w")))
      (fails "KVS_ERR_NOT_FOUND" ["nothing"] (kvstore/pull kv "nothing" a))
      (fails "KVS_ERR_SHAPE" ["2" "3"] (kvstore/push kv "w" (ndarray/ones [3 2])))
      (fails "KVS_ERR_KEY_TYPE" [] (kvstore/push kv 5 a))
      (fails "KVS_ERR_ARGUMENT" [":w"] (kvstore/push kv :w a))
      (fails "KVS_ERR_ARGUMENT" ["NUL"] (kvstore/push kv "w\u0000" a))
      (fails "KVS_ERR_ARGUMENT" ["NDArray" "[1 2]"] (kvstore/push kv ["w"] [[[1 2]]]))
      (fails "KVS_ERR_ARGUMENT" ["w" "no values"] (kvstore/push kv "w" []))
      (fails "KVS_ERR_ARGUMENT" [] (kvstore/push kv ["w" "w"] [a]))
      (fails "KVS_ERR_ARGUMENT" ["store"] (kvstore/push nil "w" a))
      (fails "KVS_ERR_ARGUMENT" ["shape"] (ndarray/ones [2 -1]))
      (is (= (repeat 6 1.0) (pulled kv "w" [2 3])))))
  (fails "KVS_ERR_NOT_FOUND" ["locla" "local"] (kvstore/create "locla"))
  (fails "KVS_ERR_ARGUMENT" ["no_such_option"] (kvstore/create "local" {:no-such-option 1})))

(deftest options-are-given-by-keyword
  (with-store [kv "local" {:threads 1 :timeout 5}]
    (is (= "local" (kvstore/type kv)))))

(deftest an-updater-changes-the-stored-value
  (with-store [kv]
    (let [seen (atom [])]
      (kvstore/init kv ["b" "a"] [(ndarray/ones [2]) (ndarray/ones [2])])
      (kvstore/set-updater kv (fn [k value stored]
                                (swap! seen conj k)
                                (ndarray/+= stored (ndarray/* value 2))))
      (kvstore/push kv ["a" "b" "a"] [(ndarray/ones [2]) (ndarray/full [2] 5) (ndarray/ones [2])])
      (is (= ["b" "a"] @seen))
      (is (= [[5.0 5.0] [11.0 11.0]] [(pulled kv "a" [2]) (pulled kv "b" [2])]))
      (kvstore/set-updater kv nil)
      (kvstore/push kv "a" (ndarray/full [2] 7))
      (is (= [7.0 7.0] (pulled kv "a" [2]))))))

(deftest what-an-updater-throws-comes-from-the-push
  (with-store [kv]
    (let [kept (atom nil)
          a (ndarray/ones [2])]
      (kvstore/init kv 1 a)
      (kvstore/set-updater kv (fn [_ _ _] (throw (ArithmeticException. "100% wrong"))))
      (let [thrown (try (kvstore/push kv 1 a) (catch clojure.lang.ExceptionInfo e e))]
        (is (= -19 (:code (ex-data thrown))))
        (is (string/includes? (ex-message thrown) "100% wrong"))
        (is (instance? ArithmeticException (ex-cause thrown))))
      (kvstore/set-updater kv (fn [_ value _] (ndarray/+= value 1)))
      (fails "KVS_ERR_CALLBACK" ["only be read"] (kvstore/push kv 1 a))
      (kvstore/set-updater kv (fn [_ _ _] (kvstore/push kv 1 a)))
      (fails "KVS_ERR_CALLBACK" [] (kvstore/push kv 1 a))
      (kvstore/set-updater kv (fn [_ _ _] (kvstore/close kv)))
      (fails "KVS_ERR_CALLBACK" ["close"] (kvstore/push kv 1 a))
      (kvstore/set-updater kv (fn [_ _ stored] (reset! kept stored)))
      (kvstore/push kv 1 a)
      (fails "KVS_ERR_STATE" ["updater"] (ndarray/->vec @kept))
      (fails "KVS_ERR_STATE" ["updater"] (kvstore/pull kv 1 @kept))
      (is (= [1.0 1.0] (pulled kv 1 [2]))))))

(deftest an-optimizer-updates-in-the-store
  (with-store [kv]
    (kvstore/init kv ["w" "v"] [(ndarray/ones [2]) (ndarray/ones [2])])
    (kvstore/set-optimizer kv "sgd" {:learning-rate 0.5 :wd 0} {:lr-mult {"v" 0.5}})
    (kvstore/push kv ["w" "v"] [(ndarray/ones [2]) (ndarray/ones [2])])
    (is (= [[0.5 0.5] [0.75 0.75]] [(pulled kv "w" [2]) (pulled kv "v" [2])]))
    (kvstore/set-optimizer-attr kv :learning-rate 0.25)
    (kvstore/push kv "w" (ndarray/ones [2]))
    (is (= [0.25 0.25] (pulled kv "w" [2])))
    (kvstore/set-optimizer kv (optimizer/sgd {:learning-rate 1}))
    (kvstore/push kv "w" (ndarray/ones [2]))
    (is (= [-0.75 -0.75] (pulled kv "w" [2])))
    (fails "KVS_ERR_ARGUMENT" ["lerning_rate"] (kvstore/set-optimizer kv "sgd" {:lerning-rate 1}))
    (fails "KVS_ERR_NOT_FOUND" ["sdg"] (kvstore/set-optimizer kv "sdg"))
    (fails "KVS_ERR_ARGUMENT" ["vector of integers"] (kvstore/set-optimizer kv "sgd" {:wd #{1}}))))

(deftest a-schedule-lowers-the-rate
  (with-store [kv]
    (kvstore/init kv 0 (ndarray/zeros [1]))
    (kvstore/set-optimizer kv "sgd" {:learning-rate 1.0}
                           {:schedule ["multifactor" {:step [1 2] :factor 0.5 :base-lr 1.0}]})
    (dotimes [_ 3]
      (kvstore/push kv 0 (ndarray/ones [1])))
    ;; 1 + 0.5 + 0.25: the rate falls once more than `step` updates were made
    (is (= [-1.75] (pulled kv 0 [1])))))

(deftest every-optimizer-of-the-namespace-exists
  (with-store [kv]
    (doseq [make (map deref (vals (ns-publics 'org.apache.clojure-mxnet.optimizer)))
            :when (not= make optimizer/create)]
      (kvstore/set-optimizer kv (make)))))

(deftest states-are-saved-and-loaded
  (let [file (str (System/getenv "TMPDIR") "/clojure.states")
        momentum {:learning-rate 1 :momentum 0.5}]
    (with-store [kv]
      (kvstore/init kv "w" (ndarray/zeros [1]))
      (fails "KVS_ERR_STATE" ["optimizer"] (kvstore/save-optimizer-states kv file))
      (kvstore/set-optimizer kv "sgd" momentum)
      (kvstore/push kv "w" (ndarray/ones [1]))
      (kvstore/save-optimizer-states kv file true))
    (with-store [kv]
      (kvstore/init kv "w" (ndarray/zeros [1]))
      (kvstore/set-optimizer kv "sgd" momentum)
      (kvstore/load-optimizer-states kv file)
      (kvstore/push kv "w" (ndarray/ones [1]))
      (is (= [-1.5] (pulled kv "w" [1])))
      (fails "KVS_ERR_NOT_FOUND" ["/nowhere/file"] (kvstore/load-optimizer-states kv "/nowhere/file"))
      (is (= [-1.5] (pulled kv "w" [1]))))))

(deftest rows-are-pulled
  (with-store [kv]
    (let [ids (ndarray/array [3 1 3] [3] {:dtype "int64"})
          out (ndarray/row-sparse-zeros [4 2])
          other (ndarray/row-sparse-zeros [4 2])]
      (kvstore/init kv "w" (ndarray/row-sparse [1 2 3 4] [0 3] [4 2]))
      (kvstore/row-sparse-pull kv "w" out ids)
      (is (= [1 3] (ndarray/indices out)))
      (is (= [0.0 0.0 0.0 0.0 0.0 0.0 3.0 4.0] (ndarray/->vec out)))
      (kvstore/row-sparse-pull kv "w" [out other] [ids (ndarray/array [0] [1] {:dtype "int32"})])
      (is (= [[1 3] [0]] (map ndarray/indices [out other])))
      (kvstore/push kv "w" [(ndarray/row-sparse [1 1 2 2] [2 2] [4 2])
                            (ndarray/row-sparse [5 5] [0] [4 2])])
      (is (= [5.0 5.0 0.0 0.0 3.0 3.0 0.0 0.0] (pulled kv "w" [4 2])))
      (kvstore/set-updater kv (fn [_ value stored] (ndarray/-= stored value)))
      (kvstore/push kv "w" (ndarray/row-sparse [1 2] [2] [4 2]))
      (is (= [5.0 5.0 0.0 0.0 2.0 1.0 0.0 0.0] (pulled kv "w" [4 2])))
      (kvstore/push kv "w" (ndarray/row-sparse [] [] [4 2]))
      (fails "KVS_ERR_RANGE" ["4"] (kvstore/row-sparse-pull kv "w" out (ndarray/array [4] [1] {:dtype "int64"})))
      (fails "KVS_ERR_DTYPE" [] (kvstore/row-sparse-pull kv "w" out (ndarray/ones [1])))
      (fails "KVS_ERR_STORAGE" ["row_sparse_pull"] (kvstore/pull kv "w" out))
      (fails "KVS_ERR_STORAGE" ["->dense"] (ndarray/* out 2))
      (fails "KVS_ERR_SHAPE" ["3 numbers"] (ndarray/row-sparse [1 2 3] [0] [4 2])))))

(deftest compression-is-refused-where-there-is-none
  (with-store [kv "device"]
    (kvstore/set-gradient-compression kv {:type "2bit" :threshold 0.5})
    (kvstore/init kv "w" (ndarray/zeros [2]))
    (kvstore/push kv "w" (ndarray/array [0.7 0.1] [2]))
    (is (= [0.5 0.0] (pulled kv "w" [2]))))
  (with-store [kv]
    (fails "KVS_ERR_NOT_IMPLEMENTED" ["local"] (kvstore/set-gradient-compression kv {:type "2bit"}))))

(deftest a-closed-store-is-refused
  (let [kv (kvstore/create)
        a (ndarray/ones [2])]
    (kvstore/init kv "w" a)
    (kvstore/close kv)
    (kvstore/dispose kv)
    (fails "KVS_ERR_STATE" ["closed"] (kvstore/pull kv "w" a))
    (fails "KVS_ERR_STATE" ["closed"] (kvstore/type kv))
    (is (= "#<KVStore closed>" (pr-str kv)))))

(defn eventually
  "Whether `f` becomes true within a generous time, while the collector runs."
  [f]
  (let [end (+ (System/nanoTime) 20e9)]
    (loop []
      (System/gc)
      (cond
        (f) true
        (> (System/nanoTime) end) false
        :else (do (Thread/yield) (recur))))))

(deftest memory-is-freed
  (let [a (ndarray/ones [1000])
        exact? (fn []
                 (let [before (lib/live-bytes)
                       b (ndarray/ones [1000])
                       with-b (lib/live-bytes)]
                   (ndarray/dispose b)
                   (ndarray/dispose b)
                   (= [(+ before 4000) before] [with-b (lib/live-bytes)])))]
    (is (eventually exact?)) ; the collector's thread may still free what other tests have left
    (ndarray/dispose a)
    (fails "KVS_ERR_STATE" ["disposed"] (ndarray/->vec a)))
  (is (eventually #(< (lib/live-bytes) 1000000)))
  (dotimes [_ 50]
    (ndarray/zeros [1000000]))
  (is (eventually #(< (lib/live-bytes) 1000000))))

(deftest a-store-that-is-dropped-is-closed
  (let [open #(count @#'kvstore/open-states)]
    (is (eventually #(zero? (open))))
    (dotimes [_ 20]
      (kvstore/create))
    (is (eventually #(zero? (open))))))

(deftest the-error-of-a-store-that-is-dropped-is-logged
  (let [closing (fn [status]
                  (let [said (java.io.StringWriter.)]
                    (binding [*err* said]
                      (with-redefs-fn {#'kvstore/close-state (fn [_] (lib/fail status "disk full"))}
                        #(.run ^Runnable (#'kvstore/close-quietly nil))))
                    (str said)))]
    (is (= "kvstore warn clojure: a store was closed with an error: disk full\n" (closing "KVS_ERR_STATE")))
    (is (= "" (closing "KVS_ERR_CANCELLED")))))

(deftest threads-share-a-store-and-one-closes-it
  (let [kv (kvstore/create)
        one (ndarray/ones [64])
        workers 4]
    (kvstore/init kv "w" one)
    (kvstore/set-updater kv (fn [_ value stored] (ndarray/+= stored value)))
    (run! deref (mapv (fn [_] (future (dotimes [_ 100] (kvstore/push kv "w" one)))) (range workers)))
    (is (= (repeat 64 401.0) (pulled kv "w" [64])))
    (let [started (java.util.concurrent.CountDownLatch. workers)
          ends (mapv (fn [_] (future (failure (.countDown started)
                                              (while true (kvstore/push kv "w" one)))))
                     (range workers))]
      (.await started)
      (failure (kvstore/close kv)) ; may tell of a push that it cancelled
      (doseq [[status] (map deref ends)]
        (is (#{"KVS_ERR_STATE" "KVS_ERR_CANCELLED"} status))))))

(deftest the-readmes-examples-print-what-they-say
  (doseq [readme ["README.md" "sdk/clojure/README.md"]]
    (let [text (slurp (str (.getParent (java.io.File. script)) "/../../" readme))
          [_ example] (re-find #"(?s)```clojure\n(.*?)```" text)
          [_ printed] (re-find #"; (\[.*\])" example)]
      (is (= (str printed "\n") (with-out-str (load-string example)))))))

(let [{:keys [fail error]} (run-tests 'kvstore-test)]
  (shutdown-agents)
  (System/exit (if (zero? (+ fail error)) 0 1)))
