package apportion;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** One JSON object a line in, one a line out; what goes wrong with a line is the answer on its line. */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

    interface Answer {
        JsonNode to(JsonNode asked) throws Exception;
    }

    static BufferedReader input() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
    }

    static synchronized void say(JsonNode what) {
        OUT.print(what.toString() + "\n");
        OUT.flush();
    }

    static void answerAll(Answer answer) throws Exception {
        BufferedReader input = input();
        for (String line; (line = input.readLine()) != null; ) {
            try {
                say(answer.to(JSON.readTree(line)));
            } catch (Exception | StackOverflowError | OutOfMemoryError wrong) {
                String said = wrong.getClass().getName() + ": " + wrong.getMessage();
                say(JSON.createObjectNode().put("error", said));
            }
        }
    }
}
