import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.v2.api.records.TaskId;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptStatusUpdateEvent.TaskAttemptStatus;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskEvent;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskEventType;
import org.apache.hadoop.mapreduce.v2.app.speculate.Speculator;
import org.apache.hadoop.mapreduce.v2.app.speculate.SpeculatorEvent;
import org.apache.hadoop.service.AbstractService;

/**
 * Has every task carried out twice at a time: a second attempt is asked for as soon as the first one
 * starts (yarn.app.mapreduce.am.job.speculator.class). What Hadoop's own does of a slow task takes
 * minutes to come.
 */
public final class EagerSpeculator extends AbstractService implements Speculator {
  private final AppContext context;
  private final Set<TaskId> doubled = new HashSet<>();

  public EagerSpeculator(Configuration conf, AppContext context) {
    super("EagerSpeculator");
    this.context = context;
  }

  @Override
  @SuppressWarnings("unchecked")
  public void handle(SpeculatorEvent event) {
    if (event.getType() == EventType.ATTEMPT_START && doubled.add(event.getTaskID())) {
      context.getEventHandler().handle(new TaskEvent(event.getTaskID(), TaskEventType.T_ADD_SPEC_ATTEMPT));
    }
  }

  @Override
  public void handleAttempt(TaskAttemptStatus status) {}
}
