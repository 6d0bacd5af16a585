/**
 * Kafka's own group coordinator without a broker, under a clock that moves only when told: one JSON line in, one out.
 *
 * <pre>
 * {"op":"begin","seed":n,"now":ms,"config":{}}            a new, empty coordinator, with a broker's settings
 * {"op":"advance"}                                         nothing more: see "now"
 * {"op":"topic","name":t,"id":id,"partitions":n}           made or grown; 0 deletes it
 * {"op":"request","frame":base64[,"error":NAME]}           a client's frame, or its refusal in Kafka's own words
 * {"op":"marker","producer":p,"epoch":e,"commit":bool}     what a transaction coordinator writes at the end
 * {"op":"fail","error":NAME}                               the next append to the log fails
 * {"op":"failover"}                                        lost, and loaded again from its log
 * </pre>
 *
 * Each has "now", to which the clock moves first; due timers fire, each at its own deadline. An answer has the request's "id", "answers" ([id, base64] each, also of earlier requests), "records" ([key, value],
 * base64, as a broker would write them to __consumer_offsets) and "next", the deadline of the next timer.
 */
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.network.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.*;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.*;
import org.apache.kafka.timeline.SnapshotRegistry;

public class Coordinator {
  static final ObjectMapper JSON = new ObjectMapper();
  static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
  static Random chance;

  /** UUID.randomUUID, and with it each member id that the coordinator makes, is drawn from the run's seed. */
  public static class Seeded extends SecureRandomSpi {
    protected void engineSetSeed(byte[] seed) {}
    protected void engineNextBytes(byte[] bytes) { chance.nextBytes(bytes); }
    protected byte[] engineGenerateSeed(int n) { return new byte[n]; }
  }

  static class Clock implements Time {
    long now;
    public long milliseconds() { return now; }
    public long nanoseconds() { return now * 1_000_000; }
    public void sleep(long ms) { throw new UnsupportedOperationException(); }
    public void waitObject(Object o, Supplier<Boolean> condition, long deadline) { throw new UnsupportedOperationException(); }
  }

  record Timeout(String key, long at, long order, boolean retry, long backoff, CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) {}

  /** Timers of one deadline fire in an order that the seed draws: a broker promises none. */
  class Timers implements CoordinatorTimer<CoordinatorRecord> {
    final Map<String, Timeout> byKey = new HashMap<>();
    final TreeSet<Timeout> due = new TreeSet<>(Comparator.comparingLong(Timeout::at).thenComparingLong(Timeout::order));
    public void schedule(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) { schedule(key, delay, unit, retry, 500, operation); }
    public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff, TimeoutOperation<CoordinatorRecord> operation) {
      cancel(key);
      Timeout timeout = new Timeout(key, clock.now + unit.toMillis(delay), chance.nextLong(), retry, backoff, operation);
      byKey.put(key, timeout);
      due.add(timeout);
    }
    public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) { if (!isScheduled(key)) schedule(key, delay, unit, retry, operation); }
    public void cancel(String key) { Timeout timeout = byKey.remove(key); if (timeout != null) due.remove(timeout); }
    public boolean isScheduled(String key) { return byKey.containsKey(key); }
  }

  /** Work that a broker does on another thread runs just behind the request that asked for it. */
  class Tasks implements CoordinatorExecutor<CoordinatorRecord> {
    final LinkedHashMap<String, Callable<CoordinatorResult<Void, CoordinatorRecord>>> queue = new LinkedHashMap<>();
    public <R> boolean schedule(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
      return queue.putIfAbsent(key, () -> {
        R result;
        try { result = task.run(); } catch (Throwable e) { return operation.onComplete(null, e); }
        return operation.onComplete(result, null);
      }) == null;
    }
    public boolean isScheduled(String key) { return queue.containsKey(key); }
    public void cancel(String key) { queue.remove(key); }
  }

  final Clock clock = new Clock();
  final Timers timers = new Timers();
  final Tasks tasks = new Tasks();
  final List<Consumer<GroupCoordinatorShard>> log = new ArrayList<>(); // what a new coordinator replays
  final Map<String, Object> props;
  GroupCoordinatorConfig config;
  SnapshotRegistry snapshots;
  GroupCoordinatorShard shard;
  MetadataImage image = MetadataImage.EMPTY;
  long offset, id;
  ArrayNode answers, records;
  Errors fail;

  Coordinator(Map<String, Object> props, long now) {
    this.props = props;
    clock.now = now;
    load();
  }

  void load() {
    LogContext context = new LogContext();
    snapshots = new SnapshotRegistry(context);
    config = GroupCoordinatorConfig.fromProps(props);
    var groups = new GroupConfigManager(Map.of(), config, ShareGroupConfig.fromProps(props));
    var builder = new GroupCoordinatorShard.Builder(config, groups);
    builder.withAuthorizerPlugin(Optional.empty());
    var metrics = new GroupCoordinatorMetrics(new com.yammer.metrics.core.MetricsRegistry(), new org.apache.kafka.common.metrics.Metrics(clock));
    shard = builder.withLogContext(context).withSnapshotRegistry(snapshots).withTime(clock).withTimer(timers).withExecutor(tasks)
        .withCoordinatorMetrics(metrics).withTopicPartition(new TopicPartition("__consumer_offsets", 0)).build();
    log.forEach(entry -> entry.accept(shard));
    snapshots.idempotentCreateSnapshot(offset);
    shard.onLoaded(new KRaftCoordinatorMetadataImage(image));
  }

  /** Append what an operation writes, whole or not at all, as the coordinator's runtime does. */
  <T> T write(long producer, short epoch, Callable<CoordinatorResult<T, CoordinatorRecord>> operation) throws Exception {
    CoordinatorResult<T, CoordinatorRecord> result = null;
    long before = offset;
    try {
      result = operation.call();
      for (CoordinatorRecord r : result.records()) {
        if (result.replayRecords()) shard.replay(offset, producer, epoch, r);
        offset++;
      }
      if (fail != null && offset > before) {
        Errors error = fail;
        fail = null;
        throw error.exception();
      }
    } catch (Throwable e) {
      snapshots.revertToSnapshot(offset = before);
      if (result != null && result.appendFuture() != null) result.appendFuture().completeExceptionally(e);
      throw e;
    }
    snapshots.idempotentCreateSnapshot(offset);
    snapshots.deleteSnapshotsUpTo(offset);
    for (CoordinatorRecord r : result.records()) {
      long at = before++;
      byte[] key = SERDE.serializeKey(r), value = r.value() == null ? null : SERDE.serializeValue(r);
      log.add(s -> s.replay(at, producer, epoch, SERDE.deserialize(ByteBuffer.wrap(key), value == null ? null : ByteBuffer.wrap(value))));
      records.addArray().add(key).add(value);
    }
    if (result.appendFuture() != null) result.appendFuture().complete(null);
    return result.response();
  }

  boolean background(Callable<CoordinatorResult<Void, CoordinatorRecord>> operation) {
    try { write(-1, (short) -1, operation); return true; } catch (Throwable e) { return false; }
  }

  void runTasks() {
    while (!tasks.queue.isEmpty()) background(tasks.queue.remove(tasks.queue.keySet().iterator().next()));
  }

  void advance(long until) {
    while (!timers.due.isEmpty() && timers.due.first().at() <= until) {
      Timeout timeout = timers.due.pollFirst();
      timers.byKey.remove(timeout.key());
      clock.now = Math.max(clock.now, timeout.at());
      if (!background(timeout.operation()::generateRecords) && timeout.retry())
        timers.schedule(timeout.key(), timeout.backoff(), TimeUnit.MILLISECONDS, true, timeout.backoff(), timeout.operation());
      runTasks();
    }
    clock.now = Math.max(clock.now, until);
  }

  void topic(String name, Uuid topicId, int partitions) throws Exception {
    TopicImage before = image.topics().getTopic(name);
    MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
    if (partitions == 0) delta.replay(new RemoveTopicRecord().setTopicId(topicId));
    else if (before == null) delta.replay(new TopicRecord().setTopicId(topicId).setName(name));
    for (int p = before == null ? 0 : before.partitions().size(); p < partitions; p++)
      delta.replay(new PartitionRecord().setTopicId(topicId).setPartitionId(p).setReplicas(List.of(0)).setIsr(List.of(0)).setLeader(0));
    image = delta.apply(new MetadataProvenance(image.provenance().lastContainedOffset() + 1, 0, clock.now, true));
    shard.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
    if (partitions == 0) background(() -> shard.onTopicsDeleted(List.of(new GroupCoordinatorShard.DeletedTopic(topicId, name))));
  }

  /** What the layers above the shard make of its errors (KafkaApis, GroupCoordinatorService). */
  static Throwable translated(Throwable e) {
    return switch (Errors.forException(e)) {
      case UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT -> Errors.COORDINATOR_NOT_AVAILABLE.exception();
      case NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR -> Errors.NOT_COORDINATOR.exception();
      default -> e;
    };
  }

  void answer(long id, RequestHeader header, ApiMessage body) {
    var head = MessageUtil.byteBufferToArray(MessageUtil.toByteBufferAccessor(header.toResponseHeader().data(), header.apiKey().responseHeaderVersion(header.apiVersion())).buffer());
    var tail = MessageUtil.byteBufferToArray(MessageUtil.toByteBufferAccessor(body, header.apiVersion()).buffer());
    answers.addArray().add(id).add(ByteBuffer.allocate(head.length + tail.length).put(head).put(tail).array());
  }

  <R> CompletableFuture<R> answered(RequestHeader header, AbstractRequest request, Function<R, ApiMessage> body) {
    long id = this.id;
    CompletableFuture<R> future = new CompletableFuture<>();
    future.whenComplete((r, e) -> answer(id, header, e == null ? body.apply(r) : refused(request, e)));
    return future;
  }

  void request(byte[] frame, String refusal) throws Exception {
    ByteBuffer bytes = ByteBuffer.wrap(frame);
    RequestHeader header = RequestHeader.parse(bytes);
    short version = header.apiVersion();
    AbstractRequest request = AbstractRequest.parseRequest(header.apiKey(), version, new ByteBufferAccessor(bytes)).request;
    RequestContext context = new RequestContext(header, "1", InetAddress.getLoopbackAddress(), KafkaPrincipal.ANONYMOUS,
        ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT), SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    try {
      Errors error = refusal == null ? Errors.NONE : Errors.valueOf(refusal);
      if (request instanceof TxnOffsetCommitRequest r) commitInTransaction(header, context, r, error);
      else if (refusal != null) throw error.exception();
      else handle(header, version, request, context);
    } catch (Throwable e) {
      answer(id, header, refused(request, e));
    }
  }

  /** An error as GroupCoordinatorService answers it. */
  static ApiMessage refused(AbstractRequest request, Throwable e) {
    ApiMessage answer = request.getErrorResponse(translated(e)).data();
    if (answer instanceof ListGroupsResponseData data && data.errorCode() == Errors.NOT_COORDINATOR.code()) data.setErrorCode((short) 0); // it has none
    if (answer instanceof JoinGroupResponseData data) data.setMemberId(((JoinGroupRequest) request).data().memberId());
    if (answer instanceof LeaveGroupResponseData data && data.errorCode() == Errors.UNKNOWN_MEMBER_ID.code())
      for (var m : ((LeaveGroupRequest) request).members())
        data.setErrorCode((short) 0).members().add(new LeaveGroupResponseData.MemberResponse().setMemberId(m.memberId()).setGroupInstanceId(m.groupInstanceId()).setErrorCode(Errors.UNKNOWN_MEMBER_ID.code()));
    return answer;
  }

  /** Topics that are not there are refused by KafkaApis, before anything else is looked at. */
  void commitInTransaction(RequestHeader header, RequestContext context, TxnOffsetCommitRequest r, Errors error) throws Exception {
    var unknown = r.data().topics().stream().filter(t -> image.topics().getTopic(t.name()) == null).toList();
    r.data().topics().removeAll(unknown);
    TxnOffsetCommitResponseData answer = new TxnOffsetCommitResponseData();
    if (!r.data().topics().isEmpty())
      try {
        if (error != Errors.NONE) throw error.exception();
        answer = write(r.data().producerId(), r.data().producerEpoch(), () -> shard.commitTransactionalOffset(context, r.data()));
      } catch (Throwable e) {
        answer = r.getErrorResponse(translated(e)).data();
      }
    r.data().setTopics(unknown);
    answer.topics().addAll(r.getErrorResponse(Errors.UNKNOWN_TOPIC_OR_PARTITION.exception()).data().topics());
    answer(id, header, answer);
  }

  void handle(RequestHeader header, short version, AbstractRequest request, RequestContext context) throws Exception {
    short none = -1;
    if (request instanceof JoinGroupRequest r) {
      require(r.data().groupId());
      int session = r.data().sessionTimeoutMs();
      if (session < config.classicGroupMinSessionTimeoutMs() || session > config.classicGroupMaxSessionTimeoutMs()) throw Errors.INVALID_SESSION_TIMEOUT.exception();
      CompletableFuture<JoinGroupResponseData> future = answered(header, request, data -> new JoinGroupResponse(data, version).data());
      failing(future, () -> write(-1, none, () -> shard.classicGroupJoin(context, r.data(), future)));
    } else if (request instanceof SyncGroupRequest r) {
      require(r.data().groupId());
      CompletableFuture<SyncGroupResponseData> future = answered(header, request, data -> data);
      failing(future, () -> write(-1, none, () -> shard.classicGroupSync(context, r.data(), future)));
    } else if (request instanceof HeartbeatRequest r) {
      require(r.data().groupId());
      answer(id, header, write(-1, none, () -> shard.classicGroupHeartbeat(context, r.data())));
    } else if (request instanceof LeaveGroupRequest r) {
      require(r.data().groupId());
      var data = new LeaveGroupRequestData().setGroupId(r.data().groupId()).setMembers(r.members());
      answer(id, header, new LeaveGroupResponse(write(-1, none, () -> shard.classicGroupLeave(context, data)), version).data());
    } else if (request instanceof ConsumerGroupHeartbeatRequest r) {
      require(r.data().groupId());
      if (r.data().memberEpoch() == 0 && (r.data().rebalanceTimeoutMs() == -1 || r.data().topicPartitions() == null || !r.data().topicPartitions().isEmpty()))
        throw new InvalidRequestException("a first heartbeat needs a rebalance time-out, topics, and no partitions");
      answer(id, header, write(-1, none, () -> shard.consumerGroupHeartbeat(context, r.data())));
    } else if (request instanceof OffsetCommitRequest r) {
      var unknown = new ArrayList<OffsetCommitResponseData.OffsetCommitResponseTopic>();
      r.data().topics().removeIf(t -> {
        if (image.topics().getTopic(t.name()) != null) return false;
        var answer = new OffsetCommitResponseData.OffsetCommitResponseTopic().setName(t.name());
        t.partitions().forEach(p -> answer.partitions().add(new OffsetCommitResponseData.OffsetCommitResponsePartition().setPartitionIndex(p.partitionIndex()).setErrorCode(Errors.UNKNOWN_TOPIC_OR_PARTITION.code())));
        return unknown.add(answer);
      });
      var data = r.data().topics().isEmpty() ? new OffsetCommitResponseData() : write(-1, none, () -> shard.commitOffset(context, r.data()));
      data.topics().addAll(unknown);
      answer(id, header, data);
    } else if (request instanceof OffsetFetchRequest r) {
      var groups = new ArrayList<OffsetFetchResponseData.OffsetFetchResponseGroup>();
      for (var g : r.groups()) groups.add(shard.fetchOffsets(g, r.requireStable() ? Long.MAX_VALUE : offset));
      answer(id, header, new OffsetFetchResponse.Builder(groups).build(version).data());
    } else if (request instanceof ListGroupsRequest r) {
      answer(id, header, new ListGroupsResponseData().setGroups(shard.listGroups(r.data().statesFilter(), r.data().typesFilter(), offset)));
    } else if (request instanceof DescribeGroupsRequest r) {
      answer(id, header, new DescribeGroupsResponseData().setGroups(shard.describeGroups(context, r.data().groups(), offset)));
    } else if (request instanceof ConsumerGroupDescribeRequest r) {
      answer(id, header, new ConsumerGroupDescribeResponseData().setGroups(shard.consumerGroupDescribe(r.data().groupIds(), offset)));
    } else throw Errors.UNSUPPORTED_VERSION.exception();
  }

  static <R> void failing(CompletableFuture<R> future, Callable<?> operation) {
    try { operation.call(); } catch (Throwable e) { future.completeExceptionally(e); }
  }

  static void require(String group) {
    if (group == null || group.isEmpty()) throw Errors.INVALID_GROUP_ID.exception();
  }

  ObjectNode obey(JsonNode q) {
    ObjectNode out = JSON.createObjectNode().put("id", ++id);
    answers = out.putArray("answers");
    records = out.putArray("records");
    try {
      advance(q.get("now").asLong());
      switch (q.get("op").asText()) {
        case "advance" -> {}
        case "topic" -> topic(q.get("name").asText(), Uuid.fromString(q.get("id").asText()), q.get("partitions").asInt());
        case "request" -> request(q.get("frame").binaryValue(), q.has("error") ? q.get("error").asText() : null);
        case "marker" -> {
          TransactionResult result = q.get("commit").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT;
          Consumer<GroupCoordinatorShard> marker = s -> s.replayEndTransactionMarker(q.get("producer").asLong(), (short) q.get("epoch").asInt(), result);
          marker.accept(shard);
          log.add(marker);
          snapshots.idempotentCreateSnapshot(++offset);
          snapshots.deleteSnapshotsUpTo(offset);
        }
        case "fail" -> fail = Errors.valueOf(q.get("error").asText());
        case "failover" -> {
          shard.onUnloaded();
          List.copyOf(timers.byKey.keySet()).forEach(timers::cancel);
          tasks.queue.clear();
          load();
        }
        default -> throw new IllegalArgumentException(q.get("op").asText());
      }
    } catch (Throwable e) {
      StringWriter trace = new StringWriter();
      e.printStackTrace(new PrintWriter(trace));
      out.put("error", trace.toString());
    }
    runTasks();
    return out.put("next", timers.due.isEmpty() ? -1 : timers.due.first().at());
  }

  public static void main(String[] args) throws Exception {
    Security.insertProviderAt(new Provider("seeded", "1", "") {{ put("SecureRandom.Seeded", Seeded.class.getName()); }}, 1);
    chance = new Random(0);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    OutputStream out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16);
    Coordinator coordinator = null;
    for (String line; (line = in.readLine()) != null; ) {
      JsonNode q = JSON.readTree(line);
      ObjectNode answer = JSON.createObjectNode();
      if (q.get("op").asText().equals("begin")) {
        chance = new Random(q.get("seed").asLong());
        coordinator = new Coordinator(JSON.convertValue(q.get("config"), new com.fasterxml.jackson.core.type.TypeReference<TreeMap<String, Object>>() {}), q.get("now").asLong());
      } else answer = coordinator.obey(q);
      out.write(JSON.writeValueAsBytes(answer));
      out.write('\n');
      out.flush();
    }
  }
}
