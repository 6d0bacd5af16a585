package apportion;

import java.util.Arrays;

/** Runs another main class and ends the process as soon as standard input closes, so that no broker outlives its test. */
public final class Leash {
    public static void main(String[] args) throws Exception {
        hold();
        Class.forName(args[0])
            .getMethod("main", String[].class)
            .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    }

    /** Ends this process when the parent dies, however it dies: its end of the pipe closes then. */
    private static void hold() {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException closed) {
                // a broken pipe says the same as a closed one
            }
            Runtime.getRuntime().halt(137);
        }, "leash");
        watch.setDaemon(true);
        watch.start();
    }
}
